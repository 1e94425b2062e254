"""What the clock asks the lab for: one form for both arms, the level of the family, and what an arm must read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from pytest_frt.contracts.job import TimingJob
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.lab.timing_group import Ask
from pytest_frt.run import clocking
from pytest_frt.run.clocking import Clock, Course, Entrant
from pytest_frt.run.progress import Silent
from pytest_frt.spec import codec

PROJ = SeatFacts(
    "linear_proj", ModuleSeat("a"), {"bias": "none"}, {"K": 8, "N": 16}, {"w": SlotRef("a.weight")}, {}, "float32", {}
)


class Group:
    """Keeps what it is asked, and answers with pretended evidence."""

    jobs: list[TimingJob]
    asks: list[Ask]
    evidence: TimingEvidence

    def __init__(self, _lab: Any, job: TimingJob, _regimes: Mapping[str, str], _phases: Sequence[str]) -> None:
        self.jobs.append(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    def collect(self, ask: Ask) -> TimingEvidence:
        self.asks.append(ask)
        return self.evidence


@pytest.fixture
def asked(toy: Any, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that judges one entrant in a form, and gives the job and the request."""
    (tmp_path / "seats.json").write_text(codec.dumps((PROJ,)))
    unit = toy.unit("linear_proj", seats=("a",))
    unit = replace(unit, structure_folder=str(repository / "catalog" / "linear_proj"))

    class Kept(Group):
        jobs, asks, evidence = [], [], toy.timing(1.3)

    monkeypatch.setattr(clocking, "TimingGroup", Kept)

    def judge(
        form: str, alpha: float | None = None, cache: str = "hot", *, quick: bool = False
    ) -> tuple[TimingJob, Ask]:
        clock = Clock(tmp_path, tmp_path, {}, quick=quick, seed=0, progress=Silent(), alpha=alpha)
        course = Course(toy.host, str(tmp_path / "seats.json"), ("decode",), form, "values", cache)
        clock.judge(course, [Entrant("one", "arm", "decode", (unit,), "")])
        return Kept.jobs[-1], Kept.asks[-1]

    return judge


@pytest.mark.parametrize("form", ["eager", "compiled"])
def test_both_arms_are_in_the_form_of_the_record(asked: Any, form: str) -> None:
    job, _ = asked(form)
    assert (job.form, job.base_form) == (form, form)


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_caches_are_in_the_state_of_the_record(asked: Any, cache: str) -> None:
    assert asked("eager", cache=cache)[0].cache == cache


@pytest.mark.parametrize("alpha", [None, 0.001], ids=["alone", "family"])
def test_evidence_is_asked_for_at_the_level_of_the_family(asked: Any, alpha: float | None) -> None:
    assert asked("eager", alpha)[1].alpha == alpha


def test_arm_must_read_its_weights_at_four_bits(asked: Any) -> None:
    assert asked("eager")[1].bytes_read == 8 * 16 // 2


@pytest.mark.parametrize(("ratio", "decided"), [(0.9, True), (1.3, False)], ids=["loses", "wins"])
def test_quick_form_ends_where_no_more_units_can_make_it_pass(
    asked: Any, toy: Any, ratio: float, *, decided: bool
) -> None:
    _, ask = asked("eager", quick=True)
    full = toy.timing(ratio)
    first = replace(full, processes=full.processes[:1], witness_base_s=(), quick=True)
    assert clocking.QUICK.one_by_one
    assert (ask.decide(first) is not None) is decided
