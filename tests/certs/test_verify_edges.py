"""What else a verdict tells: which indexes stand, whether the policy was in force, and the other of two twins."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import verify
from pytest_frt.certs.index import parse_index
from pytest_frt.certs.state import Memory
from tests.certs.conftest import NOW
from tests.certs.test_index import REQUIRED, index_of, sha

if TYPE_CHECKING:
    from pathlib import Path

    from tests.certs.conftest import World

PAST = datetime.fromisoformat("2026-02-15T00:00:00Z")


def file(folder: Path, *lines: bytes) -> Path:
    path = folder / "set.frt.intoto.jsonl"
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.fixture
def old(world: World) -> bytes:
    """Return a certificate that had expired before the policy's ``min_time``."""
    window = {"issuedAt": "2026-02-01T00:00:00Z", "expiresAt": "2026-03-01T00:00:00Z"}
    return world.line(world.spoiled(lambda s: s["predicate"].update(window)))


def test_every_entry_takes_its_moment_for_a_clock(world: World, old: bytes, tmp_path: Path) -> None:
    policy = world.policy()
    found = [
        *verify.verify_set([old], policy, PAST),
        *verify.verify_lines([verify.Line("here", old)], policy, PAST),
        *verify.verify_paths([file(tmp_path, old)], policy, PAST),
        *verify.verdict_on([file(tmp_path, old)], policy, PAST).outcomes,
    ]
    assert [getattr(one, "code", "") for one in found] == ["EXPIRED"] * 4


def test_a_moment_that_is_asked_about_is_not_lifted(world: World, old: bytes, tmp_path: Path) -> None:
    policy = world.policy()
    found = [
        *verify.verify_set([old], policy, PAST, audit=True),
        *verify.verify_lines([verify.Line("here", old)], policy, PAST, audit=True),
        *verify.verdict_on([file(tmp_path, old)], policy, PAST, audit=True).outcomes,
    ]
    assert [getattr(one, "code", "") for one in found] == [""] * 3


def test_a_policy_is_in_force_until_it_expires(world: World, tmp_path: Path) -> None:
    policy, path = world.policy(), file(tmp_path, world.line())
    ended = replace(policy, expires=NOW - timedelta(seconds=1))
    found = [verify.verdict_on([path], one, NOW) for one in (policy, ended)]
    assert [(one.in_force, getattr(one.outcomes[0], "code", "")) for one in found] == [
        (True, ""),
        (False, "POLICY_EXPIRED"),
    ]


def test_indexes_that_stand_are_told_with_nothing_accepted(world: World, tmp_path: Path) -> None:
    index, ended = index_of("a" * 64), index_of("a" * 64, expires=NOW - timedelta(seconds=1))
    stands, fell = (
        verify.verdict_on([file(tmp_path, world.line(), world.line(one))], world.policy(REQUIRED), NOW)
        for one in (index, ended)
    )
    assert (stands.standing, fell.standing) == ((parse_index(index),), ())
    assert [getattr(one, "code", "") for one in stands.outcomes] == ["NOT_IN_INDEX"]


@pytest.mark.parametrize("seeds", [(8, 9), (8, 9, 10)], ids=["two", "three"])
def test_each_twin_is_refused_beside_another(world: World, seeds: tuple[int, ...]) -> None:
    payloads = [world.spoiled(lambda s, seed=seed: s["predicate"].update(seed=seed)) for seed in seeds]  # type: ignore[misc]
    names = {sha(payload) for payload in payloads}
    lines = [world.line(payload) for payload in payloads]
    for one in verify.verify_set(lines, world.policy(), world.now, state=Memory()):
        assert isinstance(one, verify.Refused)
        told = {name for name in names if name in one.message}
        assert (one.code, one.name in told, len(told)) == ("EQUIVOCATION", True, 2)


def test_every_entry_is_exported() -> None:
    entries = {name for name in vars(verify) if name.startswith(("verify_", "verdict_"))}
    assert entries == {"verify_lines", "verify_paths", "verify_set", "verdict_on"}
    assert entries <= set(verify.__all__)
