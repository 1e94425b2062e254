"""From samples to units: order bias cancels, arms swap into reciprocals, broken clocks become no ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.measure import timing


def sample(arm: str, worker: float, *, judge: float = 0.0, canary: float = 0.002) -> TimedSample:
    return TimedSample(arm, 0, worker, judge or worker + 1e-4, canary)


def pair(base: float, candidate: float, *, base_first: bool) -> TimedPair:
    return TimedPair(sample("base", base), sample("fast", candidate), base_first)


def block(speed: float, *, bias: float = 1.0, base: float = 0.030) -> tuple[TimedPair, TimedPair]:
    """A block whose second sample of each pair is slower by ``bias``."""
    return (
        pair(base, base / speed * bias, base_first=True),
        pair(base * bias, base / speed, base_first=False),
    )


PROCESS = ProcessTiming(
    process=0,
    blocks=(block(1.5), block(1.4, bias=1.1)),
    null=(*block(1.0, bias=1.1), *block(1.0)),
    output_mismatch=0.9999,
    steal_s=0.1,
    pressure=0.2,
    wall_s=10.0,
)


@pytest.mark.parametrize("bias", [1.0, 1.1, 0.9])
def test_order_bias_cancels_inside_a_unit(bias: float) -> None:
    assert timing.unit_ratio(block(1.5, bias=bias)) == pytest.approx(1.5, rel=1e-12)


def test_fixed_order_does_not_cancel() -> None:
    fixed = tuple(pair(0.033, 0.020, base_first=False) for _ in range(2))
    assert timing.unit_ratio(fixed) == pytest.approx(1.65)
    assert not timing.balanced(fixed)
    assert timing.balanced(block(1.5))


def test_swapping_the_arms_gives_the_reciprocal() -> None:
    swapped = [TimedPair(p.candidate, p.base, not p.base_first) for p in block(1.5, bias=1.1)]
    assert timing.unit_ratio(swapped) * timing.unit_ratio(block(1.5, bias=1.1)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_a_duration_that_is_none_gives_no_ratio(seconds: float) -> None:
    assert math.isnan(timing.unit_ratio((pair(0.03, seconds, base_first=True), pair(0.03, 0.02, base_first=False))))


def test_null_units_join_successive_pairs() -> None:
    assert timing.null_units(PROCESS) == pytest.approx([1.0, 1.0])
    odd = replace(PROCESS, null=PROCESS.null[:3])
    assert len(timing.null_units(odd)) == 2


def test_summary_reads_every_process() -> None:
    evidence = TimingEvidence((PROCESS, replace(PROCESS, process=1)), (0.03,) * 3, 1, quick=False)
    summary = timing.summarise(evidence)
    assert summary.worker == [pytest.approx([1.5, 1.4])] * 2
    # The pipe's time is in both arms of the judge's clock, so its ratios lie nearer to 1.
    assert all(1 < judge < worker for judge, worker in zip(summary.judge[0], summary.worker[0], strict=True))
    assert summary.canary == pytest.approx([1.0] * 4)
    assert summary.null == pytest.approx([1.0] * 4)
    assert summary.balanced == [True] * 4
    assert len(summary.clocks) == 16
    assert summary.base == pytest.approx([0.030] * 2)
    assert summary.steal == pytest.approx([0.01] * 2)
    assert (summary.pressure, summary.cosines) == ([0.2] * 2, [0.9999] * 2)


def test_a_process_that_timed_nothing_has_no_numbers() -> None:
    empty = replace(PROCESS, blocks=(), null=(), wall_s=0.0)
    summary = timing.summarise(TimingEvidence((empty,), (), 1, quick=True))
    assert summary.worker == [[]]
    assert math.isnan(summary.base[0])
    assert math.isnan(summary.steal[0])
