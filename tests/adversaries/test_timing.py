"""No planted impl wins time it did not save: answers it kept, a base it slowed, a clock it bent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.contracts.verdict import Invalid, Pass, Verdict
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_process import Limits
from pytest_frt.measure.timing import summarise
from pytest_frt.rules import validity
from pytest_frt.run.clocking import Clock, Course, Entrant
from pytest_frt.run.progress import Silent
from pytest_frt.spec.modules import load_file

toys: Any = load_file(Path(__file__).parents[1] / "lab" / "toy.py")
EVERY_START = 8
"""An interval at 99 % needs eight starts; the one that was timed stands for all of them."""
PLAN = TimingPlan(processes=1, looks=(2,), null_pairs=0, witnesses=3, witness_blocks=1, keep_share=1.0)
REPLAY_BY_SHAPE = """
honest, answers = Part.forward, {}
import time
def replay(self, x):
    time.sleep(3e-4)  # as long as honest work, so that regions stay short
    if x.shape not in answers:
        answers[x.shape] = honest(self, x)
    return answers[x.shape]
Part.forward = replay
"""
PATCH_THE_CLOCK = """
import time
time.perf_counter = lambda: 0.0
"""
EXIT_WHEN_TIMED = """
import os
honest, calls = Part.forward, []
def dying(self, x):
    calls.append(1)
    return os._exit(0) if len(calls) > 9 else honest(self, x)
Part.forward = dying
"""
MORE = {"replays": REPLAY_BY_SHAPE, "patches_the_clock": PATCH_THE_CLOCK, "exits_when_timed": EXIT_WHEN_TIMED}
TOGETHER = ("replays", "keeps_answers", "patches_the_clock")
"""These harm no other arm, so they share a process; each of the others has one of its own."""
Timed = tuple[Verdict, TimingEvidence | None]
Time = Callable[[str], Timed]


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Time]:
    """Return a function that times one planted impl of the toy host against its base and judges it."""
    folder = tmp_path_factory.mktemp("timed")
    toy = toys.Toy(folder, repository)
    for name, top in MORE.items():
        toy._write(f"impls/linear_proj/{name}.py", toys.IMPL.format(name=name, turns=3, spoil="") + top)
    clock = Clock(folder / "out", folder, os.environ, quick=False, seed=0, progress=Silent(), plan=PLAN)
    lock = DeviceLock("cpu", folder)
    limits = Limits(load_s=60.0, step_s=10.0)
    with TimingLab(folder / "lab", environ=os.environ, lock=lock, plan=PLAN, limits=limits) as clock._lab:

        def together(*names: str) -> dict[str, Timed]:
            job = toy.job(*names)
            course = Course(job.host, job.seats, ("decode",), "eager", "values")
            return clock.judge(course, [Entrant(name, name, "decode", job.arms[name], "") for name in names])

        shared = together(*TOGETHER)
        yield lambda name: shared[name] if name in shared else together(name)[name]


@pytest.mark.parametrize(("name", "guard"), [("replays", "outputs"), ("lies", "clock")])
def test_cheat_voids_its_own_run(timed: Time, name: str, guard: str) -> None:
    verdict, evidence = timed(name)
    assert isinstance(verdict, Invalid)
    assert evidence is not None
    assert verdict.guard == guard, verdict


def test_base_that_was_slowed_is_not_the_witnesses(timed: Time) -> None:
    verdict, evidence = timed("sleeps_in_base")
    assert not isinstance(verdict, Pass)
    assert evidence is not None
    breach = validity.base_is_honest(summarise(evidence).base * EVERY_START, evidence.witness_base_s)
    assert breach is not None
    assert breach.guard == "witness"


@pytest.mark.parametrize("name", ["keeps_answers", "patches_the_clock"])
def test_trick_gains_nothing(timed: Time, name: str) -> None:
    verdict, evidence = timed(name)
    assert not isinstance(verdict, Pass)
    assert evidence is not None
    summary = summarise(evidence)
    assert median(ratio for process in summary.worker for ratio in process) < 1.3
    assert min(summary.cosines) > 0.9999
    assert min(worker for worker, _ in summary.clocks) > 0.5 * PLAN.region_s


def test_exit_while_timed_is_a_crash(timed: Time) -> None:
    verdict, evidence = timed("exits_when_timed")
    assert (getattr(verdict, "gate", ""), getattr(verdict, "kind", ""), evidence) == ("net_win", "CRASH", None)
