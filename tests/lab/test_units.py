"""Units are bound but for the seats that their scheme leaves to the host, whichever seats are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
import torch
from safetensors import safe_open
from torch import nn

from pytest_frt.contracts.host import BuildRequest, HostProgram, HostSpec
from pytest_frt.contracts.impl import Impl, Scales
from pytest_frt.contracts.job import CandidateJob, HostRef, OracleJob, UnitRef
from pytest_frt.contracts.record import KernelFacts
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts, SlotRef
from pytest_frt.lab import candidate, hosting, oracle
from pytest_frt.lab.units import BoundUnit, LoadedUnit, bind
from pytest_frt.schemes import fp8_static, fp8_static_keep_outliers
from pytest_frt.spec.load import load_structure

PEAKS = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 45.0, "e": 90.0}
KEEP = "fp8_static_keep_outliers"
SCHEMES = {"fp8_static": fp8_static.SCHEME, KEEP: fp8_static_keep_outliers.SCHEME}


class Loud(nn.ModuleDict):
    def __init__(self) -> None:
        super().__init__({name: nn.Linear(16, 16, bias=False) for name in PEAKS})

    def run(self) -> None:
        for name, module in self.items():
            module(torch.full((1, 16), PEAKS[name]))


def facts(name: str) -> SeatFacts:
    slots, dims = {"w": SlotRef(f"{name}.weight", transpose=True)}, {"K": 16, "N": 16}
    points = {"x": PointAt(name)}
    return SeatFacts("linear_proj", ModuleSeat(name), {"bias": "none"}, dims, slots, {}, "float32", points)


Bind = Callable[..., BoundUnit]


@pytest.fixture
def bound(repository: Path) -> Bind:
    """Return a function that binds seats of a host with loud projections in a scheme."""

    def made(scheme: str, *seats: str) -> BoundUnit:
        impl = ModuleType("toy")
        rows, points = {scheme: (1, 8)}, {scheme: ("x",)}
        impl.IMPL = Impl("toy", "linear_proj", 1, (scheme,), "toy/toy", rows, points=points)  # type: ignore[attr-defined]
        impl.bind = lambda *_: nn.Identity()  # type: ignore[attr-defined]
        structure = str(repository / "catalog" / "linear_proj")
        ref = UnitRef("linear_proj", structure, "toy", "", scheme, "", "toy/toy", "", "", (1, 8), seats=seats)
        kernel = (ModuleType("kernel"), KernelFacts("toy/toy", "", "", ""))
        unit = LoadedUnit(ref, load_structure(ref.structure_folder), impl, SCHEMES[scheme], *kernel)
        model = Loud()
        return bind(model, unit, [facts(name) for name in PEAKS], "", lambda: [model.run])

    return made


def test_seat_over_the_ceiling_is_refused_with_its_numbers(bound: Bind) -> None:
    found = bound(KEEP)
    assert [seat.facts.id for seat in found.bound] == ["a", "b", "c", "d"]
    (refusal,) = found.refused
    assert (refusal.gate, refusal.reason, refusal.at) == ("calibrate", "ceiling", "e")
    (number,) = refusal.measured
    assert (number.metric, number.value, number.op, number.required, number.n) == ("ceiling.x", 30.0, "<=", 20.0, 5)
    assert "e" not in found.scales


def test_scheme_that_only_states_it_binds_every_seat(bound: Bind) -> None:
    found = bound("fp8_static")
    assert (len(found.bound), found.refused) == (5, ())
    assert found.survey is not None
    assert found.survey.notes() == ("e: point x reaches 90, 30 times the median 3 of 5 points (ceiling 20)",)


def test_decision_does_not_depend_on_the_seats_that_are_left(bound: Bind) -> None:
    found = bound(KEEP, "a", "b", "d")  # of these alone the median is 2, and d reaches 22.5 times that
    assert [seat.facts.id for seat in found.bound] == ["a", "b", "d"]
    assert set(found.scales) == {"a", "b", "d"}


def test_refusals_are_of_the_seats_that_are_left(bound: Bind) -> None:
    assert bound(KEEP, "a", "b", "d").refused == ()


@pytest.mark.parametrize(
    ("seats", "claimed", "drift"),
    [((), "abcde", {"e": 1.0}), ((), "abcd", {}), (("a", "b", "d"), "abd", {})],
    ids=["bound_over_the_ceiling", "all_others", "few_left"],
)
def test_oracle_decides_again(
    repository: Path, monkeypatch: pytest.MonkeyPatch, seats: tuple[str, ...], claimed: str, drift: dict[str, float]
) -> None:
    host = HostRef("toy", "", BuildRequest(size="tiny", seed=0, checkpoint=None, device="cpu", cache=""), 1)
    file = str(repository / "pytest_frt" / "schemes" / f"{KEEP}.py")
    ref = UnitRef("linear_proj", "", "toy", "", KEEP, file, "toy/toy", "", "", (1, 8), seats=seats)
    job = OracleJob(host, (ref,), "", "", "", "decode", 0, "")
    monkeypatch.setattr(hosting, "split", lambda *_: hosting.Split([{}], [], []))
    program = SimpleNamespace(score=lambda model, *_: model.run())
    built = hosting.Hosting(cast("HostSpec", None), cast("HostProgram", program), Loud())
    scales = {name: Scales({"x": PEAKS[name] / 448}) for name in claimed}
    found = oracle.scale_drift(built, job, tuple(map(facts, PEAKS)), scales)
    assert found == {name: pytest.approx(drift.get(name, 0.0), abs=1e-6) for name in claimed}


def test_what_to_know_of_scales_is_in_their_method_and_artefact(bound: Bind, tmp_path: Path) -> None:
    host = HostRef("toy", "", BuildRequest(size="tiny", seed=0, checkpoint=None, device="cpu", cache=""), 1)
    job = CandidateJob(host, (), "", "", "decode", "eager", "", 0, lifecycle=False, out=str(tmp_path))
    made = candidate._calibration(job, [bound("fp8_static")], hosting.Split([], [], []))
    said = "e: point x reaches 90, 30 times the median 3 of 5 points (ceiling 20)"
    assert made is not None
    assert made.method.endswith(f"; {said}, 0 more such notes in the artefact")
    with safe_open(tmp_path / "scales.safetensors", framework="pt") as reader:
        assert json.loads(reader.metadata()["frt"])["notes"] == said
