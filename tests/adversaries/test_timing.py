"""No planted impl wins time it did not save: answers it kept, a base it slowed, a clock it bent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.contracts.verdict import Crashed, Invalid, Outcome, Pass, Verdict
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_process import Limits
from pytest_frt.measure.timing import summarise
from pytest_frt.rules import net_win, validity
from pytest_frt.rules.fold import fold
from pytest_frt.rules.rows import rounded
from pytest_frt.run.clocking import Clock, Course, Entrant
from pytest_frt.run.progress import Silent
from pytest_frt.spec.modules import load_file

catalogue: Any = load_file(Path(__file__).with_name("catalogue.py"))
EVERY_START = 8
"""The rule needs eight starts; the one that was timed stands for all of them."""
PLAN = TimingPlan(processes=1, looks=(3,), null_pairs=0, witnesses=3, witness_blocks=1, keep_share=1.0, region_s=0.002)
TOGETHER = [name for name, one in {**catalogue.TIMED, **catalogue.TIMED_SOUND}.items() if not one.alone]
"""These harm no other arm, so they share a process; each of the others has one of its own."""
TimedRun = tuple[Verdict, TimingEvidence | None]
Time = Callable[[str], TimedRun]


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Time]:
    """Return a function that times one planted impl of the toy host against its base and judges it."""
    folder = tmp_path_factory.mktemp("timed")
    toy = catalogue.toy.Toy(folder, repository)
    for name, one in {**catalogue.TIMED, **catalogue.TIMED_SOUND}.items():
        toy._write(f"impls/linear_proj/{name}.py", one.source(name))
    clock = Clock(folder / "out", folder, os.environ, quick=False, seed=0, progress=Silent(), plan=PLAN)
    lock = DeviceLock("cpu", folder)
    limits = Limits(load_s=60.0, step_s=10.0)
    with TimingLab(folder / "lab", environ=os.environ, lock=lock, plan=PLAN, limits=limits) as clock._lab:

        def together(*names: str) -> dict[str, TimedRun]:
            job = toy.job(*names)
            course = Course(job.host, job.seats, ("decode",), "eager", "values")
            return clock.judge(course, [Entrant(name, name, "decode", job.arms[name], "") for name in names])

        shared = together(*TOGETHER)
        yield lambda name: shared[name] if name in shared else together(name)[name]


def by_rule(evidence: TimingEvidence) -> Verdict:
    """Return what the rule alone says when every start is like the one that was timed."""
    return net_win.judge_ratios(rounded(summarise(evidence).worker * EVERY_START))


def decided(guard: str, verdict: Verdict, evidence: TimingEvidence | None) -> Verdict:
    """Return the verdict that ``guard`` gives on one start."""
    if guard == "process" or evidence is None:
        return verdict
    if guard == "rule":
        return by_rule(evidence)
    if guard == "witness":
        base = summarise(evidence).base * EVERY_START
        return validity.base_is_honest(base, evidence.witness_base_s) or by_rule(evidence)
    return verdict


@pytest.mark.parametrize("name", catalogue.TIMED)
def test_trick_ends_in_its_word(timed: Time, tally: dict[str, bool], name: str) -> None:
    one = catalogue.TIMED[name]
    verdict, evidence = timed(name)
    final = decided(one.guard, verdict, evidence)
    found = fold([final], required=("net_win",))
    tally[f"{name} (timed)"] = found.outcome is not Outcome.CERTIFIED and not isinstance(verdict, Pass)
    assert found.outcome is Outcome[one.word], (found, verdict)
    match final:
        case Invalid(guard=guard):
            assert guard == one.guard
        case Crashed():
            assert one.guard == "process"
            assert evidence is None
    if one.guard == "rule":
        assert evidence is not None
        assert min(summarise(evidence).cosines) > 0.9999


def test_honest_win_beside_them_is_one(timed: Time) -> None:
    (name,) = catalogue.TIMED_SOUND
    _, evidence = timed(name)
    assert evidence is not None
    assert isinstance(by_rule(evidence), Pass)
    assert min(summarise(evidence).cosines) > 0.9999
