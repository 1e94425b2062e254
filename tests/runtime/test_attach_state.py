"""Attach remembers what it activated: older certificates and policies stay out, and a refusal writes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import policy, state_file
from pytest_frt.certs.state import Memory
from pytest_frt.errors import CertificateRefused, StorageFault, SwapRefused
from pytest_frt.runtime import attach as module
from pytest_frt.runtime.memory import state_place

if TYPE_CHECKING:
    from tests.runtime.conftest import World


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "state.json"


def certify(world: World, serial: int) -> None:
    """Leave exactly one certified plan in the world, of this serial."""
    for old in world.out.rglob("*.frt.intoto.jsonl"):
        old.unlink()
    world.terms["serial"] = serial
    world.certify()


def test_what_is_activated_is_remembered(world: World, place: Path) -> None:
    certify(world, 6)
    with world.attach(state=place) as handle:
        assert handle.active
    memory = state_file.read(place)
    assert {seen.number for seen in memory.certificates.values()} == {6}
    assert {seen.payload for seen in memory.certificates.values()} == {handle.plan, handle.seats[0].certificate}


def test_an_older_certificate_stays_out_and_the_model_as_it_was(world: World, place: Path) -> None:
    certify(world, 6)
    world.attach(state=place).detach()
    before = place.read_bytes()
    certify(world, 5)
    handle = world.attach(state=place)
    assert not handle.active
    assert {one.code for one in handle.refused} == {"ROLLBACK"}
    assert "serial 6 was accepted before" in handle.explain()
    assert world.is_untouched()
    assert place.read_bytes() == before
    with world.attach(state=False) as forgetful:
        assert forgetful.active


def test_an_older_policy_activates_nothing(world: World, place: Path) -> None:
    certify(world, 6)
    version = world.trust().read_text().partition("version = ")[2].partition("\n")[0]
    newer = ("version = " + version, f"version = {int(version) + 1}")
    world.attach(newer, state=place).detach()
    handle = world.attach(state=place)
    assert {one.code for one in handle.refused} == {"POLICY_ROLLBACK"}
    assert not handle.active


def test_none_keeps_one_per_policy_file_and_false_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    home = world.root / "xdg"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    certify(world, 6)
    world.attach(state=False).detach()
    assert not home.exists()
    world.attach().detach()
    default = state_file.default_place(world.root / "trust.toml")
    assert default.is_relative_to(home)
    assert state_file.read(default) != Memory()


def test_a_policy_that_is_no_file_has_no_default(world: World) -> None:
    loaded = policy.load(world.trust())
    assert state_place(None, loaded) == state_file.default_place(world.root / "trust.toml")
    assert state_place(None, replace(loaded, source="policy")) is None
    assert state_place("x", replace(loaded, source="policy")) == Path("x")


def test_nothing_accepted_and_only_the_policy_is_remembered(world: World, place: Path) -> None:
    certify(world, 6)
    assert not world.attach(('structures = ["*"]', 'structures = ["other@1"]'), state=place).active
    assert state_file.read(place) == Memory(policy_version=1)


def test_a_certificate_that_does_not_fit_here_is_not_remembered(world: World, place: Path) -> None:
    record = world.record()
    world.certify(replace(record, software=record.software | {"torch": "0.0.1"}))
    assert not world.attach(state=place).active
    assert state_file.read(place) == Memory(policy_version=1)


@pytest.mark.parametrize("damage", ["", "{}"], ids=["empty", "no members"])
def test_damaged_memory_refuses_before_anything_is_verified(world: World, place: Path, damage: str) -> None:
    certify(world, 6)
    place.parent.mkdir()
    place.write_text(damage)
    place.chmod(0o600)
    with pytest.raises(CertificateRefused) as caught:
        world.attach(state=place)
    assert caught.value.refusal_code == "STATE_CORRUPT"
    assert world.is_untouched()


def test_memory_that_cannot_be_written_activates_nothing(world: World, place: Path) -> None:
    certify(world, 6)
    place.parent.write_text("")
    with pytest.raises(StorageFault):
        world.attach(state=place)
    assert world.is_untouched()


def test_what_another_process_activated_meanwhile_wins(
    world: World, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(world, 6)
    read = state_file.read
    world.attach(state=place).detach()
    certify(world, 5)
    first = iter([Memory()])
    monkeypatch.setattr(state_file, "read", lambda path: next(first, None) or read(path))
    with pytest.raises(CertificateRefused) as caught:
        world.attach(state=place)
    assert caught.value.refusal_code == "ROLLBACK"
    assert world.is_untouched()


def test_memory_is_written_before_the_swap(world: World, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise SwapRefused("the process ends here")

    certify(world, 6)
    monkeypatch.setattr(module.swap, "attach", crash)  # type: ignore[attr-defined]
    with pytest.raises(SwapRefused):
        world.attach(state=place)
    assert state_file.read(place).certificates
