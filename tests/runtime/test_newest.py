"""The newest set goes first, judged by its own time; nothing sits inside what another certificate holds."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from torch import Tensor, nn

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import composition, dsse, state_file, statement, store
from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.record import FileDigest, Record
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts, SlotRef
from pytest_frt.runtime import attach as module
from pytest_frt.runtime import choose
from pytest_frt.seat.artefact import save_artefact
from pytest_frt.spec.digest import file_digest
from tests.runtime.conftest import KEY, NOW, World, plan_record

if TYPE_CHECKING:
    from pathlib import Path

BY_CELL = ('composition = "plan"', 'composition = "cell"')


def key(size: str) -> RecordKey:
    return RecordKey(Cell("toy_ffn", "toy", "toy", "toy", "cpu"), "eager", "decode", size)


def terms(world: World, days: float, serial: int = 1) -> dict[str, Any]:
    return world.terms | {"issued_at": NOW - timedelta(days=days), "serial": serial}


def plan_of(world: World, cells: list[bytes], days: float, serial: int) -> bytes:
    plan = plan_record(*cells, name=f"toy-{serial}-cpu@eager.decode.tiny.hot")
    return statement.build_plan(plan, **terms(world, days, serial))


def test_the_newest_plan_goes_first_however_old_its_cells_are(world: World) -> None:
    other = replace(world.record([1]), key=key("small"))
    old = statement.build_cell(world.record([0]), **terms(world, 20))
    young = statement.build_cell(other, **terms(world, 10))
    older, newer = plan_of(world, [old, young], 9, 1), plan_of(world, [old], 1, 2)
    for payload in (old, young, older, newer):
        store.write_certificate(world.out, dsse.sign(payload, KEY))
    with world.attach() as handle:
        assert handle.plan == hashlib.sha256(newer).hexdigest()
        said = handle.explain()
    assert "issued 2026-11-30T00:00:00Z with serial 2; this one was issued 2026-11-22T00:00:00Z with serial 1" in said


@pytest.mark.parametrize(
    ("first", "second"), [((1, 1), (2, 5)), ((1, 6), (1, 5))], ids=["a later time", "a higher serial of one time"]
)
def test_the_newest_cell_goes_first(world: World, first: tuple[int, int], second: tuple[int, int]) -> None:
    names = []
    for size, (days, serial) in (("tiny", first), ("small", second)):
        payload = statement.build_cell(replace(world.record(), key=key(size)), **terms(world, days, serial))
        store.write_certificate(world.out, dsse.sign(payload, KEY))
        names.append(hashlib.sha256(payload).hexdigest())
    with world.attach(BY_CELL) as handle:
        assert {one.certificate: one.used for one in handle.seats if one.code != "NOT_CERTIFIED"} == {
            names[0]: True,
            names[1]: False,
        }


def test_a_runtime_that_takes_the_oldest_is_caught(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = choose.sets_of
    monkeypatch.setattr(module, "sets_of", lambda outcomes, policy: newest(outcomes, policy)[::-1])
    with pytest.raises(AssertionError):
        test_the_newest_plan_goes_first_however_old_its_cells_are(world)


class Outer(nn.Module):
    """A module around a certified one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.inner(x)
        return answer


def nest(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Put the first block into another module, and return a record of each of the two places."""
    world.model.blocks[0] = Outer(world.model.blocks[0]).eval()  # type: ignore[operator,index]
    world.twin = copy.deepcopy(world.model)
    plain, records = world.facts(0), []
    slots = {name: SlotRef(f"blocks.0.inner.{name[2:]}.weight", transpose=True) for name in ("w_up", "w_down")}
    for at, size in (("blocks.0", "tiny"), ("blocks.0.inner", "small")):
        facts: SeatFacts = replace(plain, seat=ModuleSeat(at), slots=slots, points={"x": PointAt(at)})
        monkeypatch.setattr(world, "facts", lambda _block, facts=facts: facts)
        records.append(replace(world.record([0]), key=key(size)))
    scales = world.root / "scales.safetensors"
    save_artefact(scales, {one.seats[0].facts.id: Scales({"x": 0.25}) for one in records})
    store.write_artefact(world.out, "toy", "cpu", scales.read_bytes())
    artefact = FileDigest("scales.safetensors", file_digest(scales))
    calibrations = [one.calibration for one in records if one.calibration is not None]
    sources = {name: digest for one in records for name, digest in one.host.module_source.items()}
    return [
        replace(one, calibration=replace(found, artefact=artefact), host=replace(one.host, module_source=dict(sources)))
        for one, found in zip(records, calibrations, strict=True)
    ]


def test_a_seat_inside_another_cells_seat_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "state.json"
    world.certify(*nest(world, monkeypatch))
    handle = world.attach(BY_CELL, state=place)
    assert sorted(one.code for one in handle.seats if one.code != "NOT_CERTIFIED") == ["", "OVERLAP"]
    assert "one inside the other" in handle.explain()
    used = {one.certificate for one in handle.seats if one.used}
    assert {one.payload for one in state_file.read(place).certificates.values()} == used
    handle.detach()
    assert world.is_untouched()


def test_a_plan_with_one_seat_inside_another_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = world.certify(*nest(world, monkeypatch)).attach()
    assert not handle.active
    (code,) = {one.code for one in handle.refused if one.code != "NO_PLAN"}
    assert code == "PLAN_MEMBER"
    assert "one inside the other" in handle.explain()


@pytest.mark.parametrize(
    ("some", "others", "found"),
    [
        (["a.b"], ["a.b"], ("a.b", "a.b")),
        (["a.b"], ["a.b.c"], ("a.b", "a.b.c")),
        (["a.b.c.d"], ["a.b"], ("a.b.c.d", "a.b")),
        (["a"], [""], ("a", "")),
        ([""], ["a.b"], ("", "a.b")),
        (["a.b"], ["a.bc", "a.c", "ab"], None),
        ([], ["a"], None),
    ],
    ids=["same", "inside", "around", "model", "in the model", "beside", "nothing"],
)
def test_places_collide_where_one_lies_in_the_other(
    some: list[str], others: list[str], found: tuple[str, str] | None
) -> None:
    places = composition.Places()
    places.add(some)
    assert places.meeting(others) == found


def test_threads_attach_one_after_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sets_of, inside, peaks = choose.sets_of, [], []

    def watched(*given: Any) -> list[choose.Set]:
        inside.append(1)
        time.sleep(0.1)
        peaks.append(len(inside))
        inside.pop()
        return sets_of(*given)

    monkeypatch.setattr(module, "sets_of", watched)
    world.rename_kernel().certify()
    models, trust = [copy.deepcopy(world.model) for _ in range(4)], world.trust()
    builds, gate = {"acme/toy": world.root / "kernel"}, threading.Barrier(4)
    active: list[object] = []

    def run(model: nn.Module) -> None:
        gate.wait()
        handle = module.attach(model, certificates=world.out, trust=trust, now=NOW, kernels=builds, state=False)
        active.append(handle.active or handle.explain())

    threads = [threading.Thread(target=run, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (active, peaks) == ([True] * 4, [1] * 4)


def test_a_runtime_without_the_lock_is_caught(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "alone", contextlib.nullcontext)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    with pytest.raises(AssertionError):
        test_threads_attach_one_after_the_other(world, monkeypatch)
