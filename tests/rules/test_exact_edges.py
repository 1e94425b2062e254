"""Edges of the exact statistics, small enough to count by hand."""

from __future__ import annotations

import math

import pytest

from pytest_frt.rules.exact import (
    Interval,
    crossing_levels,
    meets,
    order_interval,
    sign_test,
    spending_bounds,
    upper_tail,
)


@pytest.mark.parametrize(
    ("op", "below", "above"), [(">=", False, True), ("<=", True, False), (">", False, True), ("<", True, False)]
)
def test_meets_off_the_limit(op: str, *, below: bool, above: bool) -> None:
    assert (meets(0.9, op, 1.0), meets(1.1, op, 1.0)) == (below, above)


@pytest.mark.parametrize(
    ("trials", "count", "tail"),
    [(4, -1, 1.0), (4, 0, 1.0), (4, 1, 15 / 16), (4, 3, 5 / 16), (4, 4, 1 / 16), (4, 5, 0.0), (0, 0, 1.0)],
)
def test_upper_tail(trials: int, count: int, tail: float) -> None:
    assert upper_tail(trials, count) == tail


@pytest.mark.parametrize(
    ("above", "below", "chance"), [(3, 1, 0.625), (1, 3, 0.625), (5, 0, 0.0625), (2, 1, 1.0), (0, 1, 1.0)]
)
def test_sign_test_is_two_sided(above: int, below: int, chance: float) -> None:
    assert sign_test([2.0] * above + [1.0] * 3 + [0.5] * below, 1.0) == chance


@pytest.mark.parametrize(
    ("values", "confidence", "interval"),
    [
        pytest.param([3.0, 1.0, 5.0, 2.0, 4.0], 0.5, Interval(2.0, 4.0), id="second_from_each_end"),
        pytest.param([3.0, 1.0, 5.0, 2.0, 4.0], 0.9, Interval(1.0, 5.0), id="the_ends"),
        pytest.param([3.0, 1.0, 5.0, 2.0, 4.0], 0.9375, Interval(1.0, 5.0), id="exactly_the_confidence"),
        pytest.param([3.0, 1.0, 5.0, 2.0, 4.0], 0.94, Interval(-math.inf, math.inf), id="too_few"),
        pytest.param([], 0.5, Interval(-math.inf, math.inf), id="none"),
    ],
)
def test_order_interval_by_hand(values: list[float], confidence: float, interval: Interval) -> None:
    assert order_interval(values, confidence) == interval


@pytest.mark.parametrize(
    ("units", "bounds", "chance", "levels"),
    [
        ([2], [2], 0.5, [0.25]),
        ([2, 4], [2, 3], 0.5, [0.25, 0.375]),
        ([2, 4], [3, 3], 0.5, [0.0, 0.3125]),
        ([2, 4], [2, 3], 0.25, [0.0625, 0.0625 + 0.375 * 0.0625]),
        ([3], [0], 0.5, [1.0]),
    ],
)
def test_crossing_levels(units: list[int], bounds: list[int], chance: float, levels: list[float]) -> None:
    assert crossing_levels(units, bounds, chance) == pytest.approx(levels, rel=1e-15)


def test_crossing_levels_are_those_of_a_fair_coin_and_need_a_bound_per_look() -> None:
    assert crossing_levels([2], [1]) == [0.75]
    with pytest.raises(ValueError, match="zip"):
        crossing_levels([2, 4], [2])


@pytest.mark.parametrize(
    ("units", "alpha", "bounds"),
    [
        pytest.param((2,), 0.25, (2,), id="exactly_what_two_of_two_spend"),
        pytest.param((2,), 0.2499, (3,), id="less_than_two_of_two_spend"),
        pytest.param((2,), 0.75, (1,), id="one_of_two"),
        pytest.param((2, 4), 0.5, (2, 3), id="two_looks"),
        pytest.param((2, 4), 0.45, (2, 3), id="rest_for_the_second_look"),
        pytest.param((2, 4), 0.36, (3, 3), id="first_look_has_too_little"),
        pytest.param((2, 4), 1e-9, (3, 5), id="no_count_is_enough"),
        pytest.param((1, 2, 3), 0.9, (2, 2, 1), id="three_looks"),
        pytest.param((2, 3, 5), 0.5, (2, 3, 4), id="a_count_out_of_reach_costs_nothing"),
    ],
)
def test_spending_bounds(units: tuple[int, ...], alpha: float, bounds: tuple[int, ...]) -> None:
    assert spending_bounds(units, alpha) == bounds


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.01])
def test_no_look_spends_more_than_its_budget_and_one_less_would(alpha: float) -> None:
    units = (4, 8, 10)
    bounds = spending_bounds(units, alpha)
    for look, level in enumerate(crossing_levels(units, bounds)):
        budget = alpha * math.log(1 + (math.e - 1) * units[look] / 10)
        lower = [*bounds[:look], bounds[look] - 1]
        assert level <= budget < crossing_levels(units[: look + 1], lower)[-1]
