"""Places on charts keep order and stay inside, whatever the values."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pytest_frt.report.charts import LATE_SHARE, TICKS, Axis, curve, strip

RATIO = some.floats(1e-3, 1e3)


@given(some.lists(RATIO, min_size=1, max_size=40), some.booleans())
def test_axis_keeps_order_and_room(values: list[float], log: bool) -> None:  # noqa: FBT001 (drawn)
    axis = Axis.over(values, log=log)
    places = [axis.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0 < place < 100 for place in places)
    assert len(axis.ticks) <= TICKS + 1
    assert all(0 <= axis.at(tick) <= 100 for tick in axis.ticks)


@given(some.lists(some.lists(RATIO, min_size=1, max_size=10), min_size=1, max_size=8))
def test_strip_places_every_unit_and_every_median(processes: list[list[float]]) -> None:
    plot = strip(processes, 1.02, 0.99)
    assert plot is not None
    dots = [dot for row in plot.rows for dot in row.dots]
    assert [dot.value for dot in dots] == [ratio for process in processes for ratio in process]
    assert [dot.good for dot in dots] == [dot.value > 1.02 for dot in dots]
    assert all((dot.x > plot.at["margin"]) >= (dot.good and dot.x != plot.at["margin"]) for dot in dots)
    assert plot.at["low"] <= plot.at["pooled"] <= plot.at["high"]
    assert all(math.isfinite(place) for place in plot.at.values())
    assert max(dot.y for dot in dots) < plot.height


def test_value_beyond_an_axis_is_drawn_at_its_end() -> None:
    axis = Axis.over([0.0, 1.0])
    assert (axis.at(-5), axis.at(9)) == (0, 100)


def test_equal_values_have_an_axis() -> None:
    assert Axis.over([1.0, 1.0]).at(1.0) == 50


def test_ticks_are_round() -> None:
    assert Axis.over([0.97, 1.21]).ticks == (1.0, 1.05, 1.1, 1.15, 1.2)


@pytest.mark.parametrize(("ratio", "flip"), [(0.5, True), (2.0, False)], ids=["slow", "fast"])
def test_label_of_the_margin_turns_away_from_the_edge(ratio: float, *, flip: bool) -> None:
    plot = strip([[ratio] * 3], 1.02, 0.99)
    assert plot is not None
    assert (plot.flip, plot.at["margin"] > LATE_SHARE) == (flip, flip)


def test_stated_numbers_are_drawn_in_place_of_own_ones() -> None:
    plot = strip([[1.1, 1.2]], 1.02, 0.99, said=(1.5, 1.4, 1.6))
    assert plot is not None
    assert (plot.pooled, plot.low, plot.high) == (1.5, 1.4, 1.6)


def test_nothing_timed_is_no_plot() -> None:
    assert strip([], 1.02, 0.99) is None
    assert strip([[]], 1.02, 0.99) is None
    assert curve("canary", []) is None
    assert curve("canary", [[None]]) is None


def test_curve_marks_what_leaves_the_guard_and_where_processes_begin() -> None:
    plot = curve("canary", [[1.0, 1.02], [None, 0.98, 1.0]], guard=(0.99, 1.01))
    assert plot is not None
    assert [dot.good for dot in plot.dots] == [True, False, False, True]
    assert [tick.at for tick in plot.breaks] == [0, 40]
    assert plot.band is not None
    assert plot.band[0] < plot.band[1]
    high, low = plot.dots[1], plot.dots[2]
    assert high.y < plot.band[0] < plot.band[1] < low.y
    assert all(before.x < after.x for before, after in pairwise(plot.dots))
    assert "median 1.0000, 0.9800 to 1.0200 over 4 units; its median must stay within 0.99 to 1.01" in plot.says


def test_ratios_far_apart_are_drawn_by_their_logarithm() -> None:
    near, far = strip([[0.9, 1.2]], 1.02, 0.99), strip([[0.1, 10.0]], 1.02, 0.99)
    assert near is not None
    assert far is not None
    assert (near.log, far.log) == (False, True)
    assert [tick.label for tick in far.ticks] == ["0.1", "0.3", "1", "3", "10"]
    assert far.at["one"] == 50
