"""Exact statistics against counting every sign pattern."""

from __future__ import annotations

import math
from itertools import product

import pytest

from pytest_frt.errors import SpecError
from pytest_frt.rules.exact import Interval, meets, order_interval, sign_test, upper_tail


@pytest.mark.parametrize("op", [">=", "<=", ">", "<"])
def test_nan_meets_nothing(op: str) -> None:
    assert not meets(math.nan, op, 0.0)
    assert not meets(0.0, op, math.nan)


@pytest.mark.parametrize(("op", "holds"), [(">=", True), ("<=", True), (">", False), ("<", False)])
def test_equality(op: str, *, holds: bool) -> None:
    assert meets(1.02, op, 1.02) is holds


def test_an_unknown_comparison_is_an_error() -> None:
    with pytest.raises(SpecError, match="=="):
        meets(1.0, "==", 1.0)


@pytest.mark.parametrize("count", range(8))
def test_tail_counts_sign_patterns(count: int) -> None:
    patterns = [sum(signs) for signs in product((0, 1), repeat=7)]
    assert upper_tail(7, count) == sum(pattern >= count for pattern in patterns) / len(patterns)


@pytest.mark.parametrize(
    ("values", "chance"),
    [
        pytest.param([1.1] * 8, 2 / 256, id="all_above"),
        pytest.param([0.9] * 8, 2 / 256, id="all_below"),
        pytest.param([1.1] * 4 + [0.9] * 4, 1.0, id="even"),
        pytest.param([1.0] * 8, 1.0, id="ties_say_nothing"),
        pytest.param([1.1] * 8 + [1.0] * 50, 2 / 256, id="ties_are_left_out"),
        pytest.param([], 1.0, id="empty"),
    ],
)
def test_sign_test(values: list[float], chance: float) -> None:
    assert sign_test(values, 1.0) == chance


@pytest.mark.parametrize(
    ("n", "interval"),
    [
        pytest.param(7, Interval(-math.inf, math.inf), id="seven_cannot_reach_99_percent"),
        pytest.param(8, Interval(0.0, 7.0), id="eight_reach_it_with_the_whole_range"),
        pytest.param(80, Interval(28.0, 51.0), id="eighty_drop_twenty_eight_a_side"),
    ],
)
def test_order_interval(n: int, interval: Interval) -> None:
    assert order_interval([float(value) for value in range(n)], 0.99) == interval


def test_order_interval_covers_as_it_says() -> None:
    n, hits = 12, 0
    for signs in product((-1, 1), repeat=n):
        interval = order_interval([sign * (1 + index) for index, sign in enumerate(signs)], 0.99)
        hits += interval.low <= 0 <= interval.high
    assert 0.99 <= hits / 2**n < 0.995
