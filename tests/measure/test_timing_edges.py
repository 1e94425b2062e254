"""Edges of timing summaries: which clock is read, and what a process that timed nothing gives."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.measure import timing


def pair(base: float, candidate: float, *, first: bool = True, offset: float = 0.0) -> TimedPair:
    """A pair whose judge's clock is ten times, and whose canary's a tenth, of the worker's seconds."""
    arms = [TimedSample(arm, 0, s, s * 10 + offset, s / 10) for arm, s in (("base", base), ("fast", candidate))]
    return TimedPair(arms[0], arms[1], first)


def process(*blocks: tuple[TimedPair, ...], null: tuple[TimedPair, ...] = ()) -> ProcessTiming:
    return ProcessTiming(0, blocks, null, output_mismatch=0.5, steal_s=1.0, pressure=0.25, wall_s=4.0)


BLOCK = (pair(3.0, 2.0), pair(8.0, 4.0, first=False))


def test_each_clock_reads_its_own_seconds() -> None:
    sample = TimedSample("base", 0, 1.0, 2.0, 3.0)
    clocks = (timing.worker_clock, timing.judge_clock, timing.canary_clock)
    assert [clock(sample) for clock in clocks] == [1.0, 2.0, 3.0]


def test_a_unit_is_the_geometric_mean_of_its_pairs() -> None:
    assert timing.unit_ratio(BLOCK) == pytest.approx(math.sqrt(1.5 * 2.0))
    assert timing.unit_ratio(BLOCK[:1]) == pytest.approx(1.5)


@pytest.mark.parametrize("clock", [timing.worker_clock, timing.judge_clock])
def test_units_are_read_by_the_clock_asked_for(clock: timing.Clock) -> None:
    late = tuple(pair(3.0, 2.0, first=first, offset=10.0) for first in (True, False))
    expected = 1.5 if clock is timing.worker_clock else 40.0 / 30.0
    assert timing.units(process(late), clock) == pytest.approx([expected])


@pytest.mark.parametrize(("base", "candidate"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (-1.0, -1.0), (math.nan, 1.0)])
def test_no_ratio_without_two_durations(base: float, candidate: float) -> None:
    assert math.isnan(timing.unit_ratio((pair(base, candidate),)))


@pytest.mark.parametrize(("base", "candidate"), [(1e-9, 1.0), (1.0, 1e-9), (0.5, 0.5)])
def test_the_shortest_durations_have_a_ratio(base: float, candidate: float) -> None:
    assert timing.unit_ratio((pair(base, candidate),)) == pytest.approx(base / candidate)


def test_null_units_are_two_pairs_each_in_order() -> None:
    pairs = (pair(2.0, 1.0), pair(2.0, 1.0), pair(3.0, 1.0), pair(3.0, 1.0), pair(5.0, 1.0))
    assert timing.null_units(process(null=pairs)) == pytest.approx([2.0, 3.0, 5.0])


@pytest.mark.parametrize(
    ("orders", "even"), [((True, False), True), ((True, True), False), ((False, False), False), ((True,), False)]
)
def test_balance(orders: tuple[bool, ...], *, even: bool) -> None:
    assert timing.balanced([pair(1.0, 1.0, first=first) for first in orders]) is even


def test_summary_of_two_processes() -> None:
    second = replace(process((pair(9.0, 3.0), pair(9.0, 3.0))), steal_s=2.0)
    summary = timing.summarise(TimingEvidence((process(BLOCK), second), (), 1, quick=False))
    assert summary.base == [5.5, 9.0]
    assert summary.candidate == [3.0, 3.0]
    assert summary.balanced == [True, False]
    assert summary.steal == [0.25, 0.5]
    assert summary.clocks[:3] == [(3.0, 30.0), (2.0, 20.0), (8.0, 80.0)]
    assert summary.canary == pytest.approx([math.sqrt(3.0), 3.0])


def test_a_process_of_half_a_second_has_its_share_of_steal() -> None:
    brief = replace(process(BLOCK), steal_s=0.1, wall_s=0.5)
    assert timing.summarise(TimingEvidence((brief,), (), 1, quick=False)).steal == [0.2]


def test_a_process_that_timed_nothing_has_no_medians() -> None:
    empty = replace(process(), wall_s=0.0, steal_s=0.0)
    summary = timing.summarise(TimingEvidence((empty,), (), 1, quick=False))
    assert all(math.isnan(value) for value in (*summary.base, *summary.candidate, *summary.steal))
