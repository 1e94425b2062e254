"""What was withdrawn stays withdrawn: policies and indexes are remembered although nothing was accepted."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, index, keys, state_file
from pytest_frt.certs.state import Memory
from pytest_frt.cli import certs as cli
from pytest_frt.cli import main
from pytest_frt.runtime.memory import Kept
from tests.runtime.conftest import KEY, NOW

if TYPE_CHECKING:
    from tests.runtime.conftest import World

REQUIRED = ("[[key]]", "[index]\nrequired = true\n[[key]]")
NEWER = ("version = 1", "version = 2")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


def names(world: World) -> list[str]:
    lines = [line for path in sorted(world.out.rglob("*.frt.intoto.jsonl")) for line in path.read_bytes().splitlines()]
    return [hashlib.sha256(dsse.parse_envelope(line).payload).hexdigest() for line in lines]


def put_index(world: World, version: int, *, revoke: bool, days: int = 5, key: keys.SigningKey = KEY) -> None:
    """Leave one index that lists everything, or revokes everything."""
    every = names(world)
    payload = index.build_index(
        issuer="acme",
        version=version,
        issued_at=NOW - timedelta(days=10),
        expires=NOW + timedelta(days=days),
        current=[] if revoke else every,
        revoked=[index.Revoked("payload", name, "bad") for name in every] if revoke else [],
    )
    (world.out / "index.intoto.jsonl").write_text(dsse.sign(payload, key) + "\n")


def attached(world: World, place: Path, *changes: tuple[str, str]) -> bool:
    with world.attach(*changes, state=place) as handle:
        return handle.active


@pytest.mark.parametrize("required", [(), (REQUIRED,)], ids=["index", "index_required"])
def test_an_older_index_does_not_bring_back_what_the_newer_one_revoked(
    world: World, place: Path, required: tuple[tuple[str, str], ...]
) -> None:
    world.certify()
    put_index(world, 1, revoke=False)
    assert attached(world, place, REQUIRED)
    put_index(world, 2, revoke=True)
    assert not attached(world, place, REQUIRED)
    assert state_file.read(place).indexes["acme"].number == 2
    put_index(world, 1, revoke=False)
    handle = world.attach(*required, state=place)
    assert "INDEX_ROLLBACK" in {one.code for one in handle.refused}
    assert handle.active is not bool(required)  # where none is required, one may as well be left out
    handle.detach()


def deny(world: World) -> tuple[str, str]:
    entries = "".join(f'[[deny]]\npayload = "{name}"\nreason = "bad"\n' for name in names(world))
    return ("[[key]]", f"{entries}[[key]]")


def test_an_older_policy_does_not_bring_back_what_the_newer_one_denied(world: World, place: Path) -> None:
    world.certify()
    assert attached(world, place)
    assert not attached(world, place, NEWER, deny(world))
    handle = world.attach(state=place)
    assert (handle.active, {one.code for one in handle.refused}) == (False, {"POLICY_ROLLBACK"})


@pytest.mark.parametrize("fault", ["expired", "stranger", "superseded"])
def test_an_index_that_is_refused_is_not_remembered(world: World, place: Path, fault: str) -> None:
    world.certify()
    put_index(world, 5, revoke=False)
    assert attached(world, place)
    before = state_file.read(place)
    version = 4 if fault == "superseded" else 9
    key = keys.generate() if fault == "stranger" else KEY
    put_index(world, version, revoke=True, days=-1 if fault == "expired" else 5, key=key)
    handle = world.attach(state=place)
    assert {"INDEX_EXPIRED", "SIG_NONE", "INDEX_ROLLBACK"} & {one.code for one in handle.refused}
    handle.detach()
    assert state_file.read(place).indexes == before.indexes


def test_an_expired_policy_is_not_remembered(world: World, place: Path) -> None:
    world.certify()
    expired = ('expires = "2027-03-01T00:00:00Z"', 'expires = "2026-11-30T00:00:00Z"')
    assert not attached(world, place, NEWER, expired)
    assert state_file.read(place) == Memory()
    assert attached(world, place)


def test_verify_remembers_what_it_refused(world: World, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "datetime", SimpleNamespace(now=lambda _zone: NOW))
    world.certify()
    put_index(world, 2, revoke=True)
    assert main(["verify", str(world.out), "--trust", str(world.trust(NEWER)), "--state", str(place)]) == 1
    memory = state_file.read(place)
    assert (memory.policy_version, memory.indexes["acme"].number, memory.certificates) == (2, 2, {})
    put_index(world, 1, revoke=False)
    assert not attached(world, place, NEWER, REQUIRED)
    assert not attached(world, place)


def test_a_runtime_that_remembers_only_what_it_activates_is_caught(
    world: World, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Kept.commit
    monkeypatch.setattr(
        Kept, "commit", lambda self, verdict, accepted=(): commit(self, verdict, accepted) if accepted else None
    )
    with pytest.raises(AssertionError):
        test_an_older_policy_does_not_bring_back_what_the_newer_one_denied(world, place)
