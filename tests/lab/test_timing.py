"""Real timing processes: what a faster, an equal, a wrong and a cheating impl leave in the evidence."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimingEvidence
from pytest_frt.contracts.verdict import Crashed
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_group import Ask, TimingGroup

PLAN = TimingPlan(processes=1, looks=(2, 4), null_pairs=2, witnesses=1, keep_share=0.5, loads=1, region_s=0.002)


class Steps:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def step(self, stage: str, done: int, total: int, detail: str) -> None:  # noqa: ARG002 (the protocol's signature)
        self.seen.append((done, total))


def ask(arm: str) -> Ask:
    return Ask(arm, lambda _: None, random.Random(0), Steps())  # noqa: S311 (no secret)


@pytest.fixture(scope="module")
def timing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimingLab]:
    folder = tmp_path_factory.mktemp("timing")
    with TimingLab(folder, environ=os.environ, lock=DeviceLock("cpu", folder), plan=PLAN) as lab:
        yield lab


@pytest.fixture(scope="module")
def honest(timing: TimingLab, toy: Any) -> dict[str, TimingEvidence]:
    """Return the evidence of three arms that shared one process."""
    with TimingGroup(timing, toy.job("faster", "equal", "wrong")) as group:
        got = {arm: group.collect(ask(arm)) for arm in ("faster", "equal", "wrong")}
    assert not [evidence for evidence in got.values() if isinstance(evidence, Crashed)], got
    return got


def pairs(evidence: TimingEvidence) -> list[TimedPair]:
    return [pair for process in evidence.processes for block in process.blocks for pair in block]


def speed(evidence: TimingEvidence) -> float:
    return median(pair.base.worker_s / pair.candidate.worker_s for pair in pairs(evidence))


def test_planted_speed_shows_and_equal_work_does_not(honest: dict[str, TimingEvidence]) -> None:
    assert speed(honest["faster"]) > 1.5
    assert 0.6 < speed(honest["equal"]) < 1.5


def test_evidence_has_every_part(honest: dict[str, TimingEvidence]) -> None:
    (process,) = honest["equal"].processes
    assert [len(process.blocks), len(process.null)] == [4, 2]
    assert all(first.base_first != second.base_first for first, second in process.blocks)
    assert all(pair.base.arm == "base" and pair.candidate.arm == "equal" for pair in pairs(honest["equal"]))
    assert all(pair.base.state == pair.candidate.state for pair in pairs(honest["equal"]))
    assert all(pair.candidate.arm == "base" for pair in process.null)
    assert {pair.base.state for pair in pairs(honest["equal"])} == {0, 1, 2}
    assert all(sample.canary_s > 0 for pair in pairs(honest["equal"]) for sample in (pair.base, pair.candidate))
    assert len(honest["equal"].witness_base_s) == 1
    assert honest["equal"].peak_bytes_s > 1e8
    assert process.wall_s > sum(pair.base.worker_s + pair.candidate.worker_s for pair in pairs(honest["equal"]))


def test_region_is_long_enough_and_both_clocks_see_it(honest: dict[str, TimingEvidence]) -> None:
    assert honest["equal"].repeats > 1
    for pair in pairs(honest["equal"]):
        assert pair.base.worker_s > 0.5 * PLAN.region_s
        assert pair.base.judge_s > pair.base.worker_s


def test_kept_outputs_are_compared_with_the_witness(honest: dict[str, TimingEvidence]) -> None:
    def worst(arm: str) -> ProcessTiming:
        return honest[arm].processes[0]

    assert worst("equal").output_mismatch > 0.9999
    assert worst("wrong").output_mismatch < 0.9


def test_no_expected_output_lies_on_disk_while_an_arm_runs(
    timing: TimingLab, honest: dict[str, TimingEvidence]
) -> None:
    assert honest
    assert timing.witnesses.expected
    assert not list(timing.folder.rglob("*.safetensors"))


def test_keeping_answers_gains_nothing(timing: TimingLab, toy: Any) -> None:
    with TimingGroup(timing, toy.job("keeps_answers")) as group:
        evidence = group.collect(ask("keeps_answers"))
    assert isinstance(evidence, TimingEvidence)
    assert evidence.repeats > 1
    assert speed(evidence) < 1.3


def test_sleep_in_the_base_shows_against_the_witness(timing: TimingLab, toy: Any) -> None:
    with TimingGroup(timing, toy.job("sleeps_in_base")) as group:
        evidence = group.collect(ask("sleeps_in_base"))
    assert isinstance(evidence, TimingEvidence)
    base = median(pair.base.worker_s for pair in pairs(evidence)) / evidence.repeats
    assert base > 2 * evidence.witness_base_s[0] / evidence.repeats


def test_clock_that_lies_differs_from_the_judges(timing: TimingLab, toy: Any) -> None:
    with TimingGroup(timing, toy.job("lies")) as group:
        evidence = group.collect(ask("lies"))
    assert isinstance(evidence, TimingEvidence)
    assert min(pair.candidate.judge_s / pair.candidate.worker_s for pair in pairs(evidence)) > 2


def test_stray_process_is_found_by_its_mark_and_ended(timing: TimingLab) -> None:
    fleet = timing.fleet("stray")
    stray = subprocess.Popen(["sleep", "60"], env={"FRT_LAB": fleet._mark}, start_new_session=True)  # noqa: S607
    while not Path(f"/proc/{stray.pid}/environ").read_bytes():
        time.sleep(0.001)  # it is still being exec'ed
    assert fleet.strays() == [stray.pid]
    fleet.close()
    assert stray.wait(5) == -signal.SIGKILL


def test_comparison_sets_the_compiled_base_beside_the_eager_arm(timing: TimingLab, toy: Any) -> None:
    got = timing.compare(toy.job("faster", base_form="compiled"), "faster", pairs=5, rng=random.Random(0))  # noqa: S311
    assert not isinstance(got, Crashed)
    assert len(got) == 6
    assert 0.6 < median(pair.base.worker_s / pair.candidate.worker_s for pair in got) < 1.5
