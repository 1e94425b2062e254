"""Exact small-sample statistics: sign test, group-sequential levels, order-statistic intervals, NaN-proof comparing."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_frt.errors import SpecError


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval; infinite when the sample is too small for the confidence asked for."""

    low: float
    high: float


def meets(value: float, op: str, limit: float) -> bool:
    """Report whether ``value op limit`` holds. NaN meets nothing.

    Raises:
        SpecError: ``op`` is not one of ``>=``, ``<=``, ``>``, ``<``.
    """
    match op:
        case ">=":
            return value >= limit
        case "<=":
            return value <= limit
        case ">":
            return value > limit
        case "<":
            return value < limit
    raise SpecError(f"comparison {op!r} is not one of >=, <=, >, <")


@functools.cache
def upper_tail(trials: int, count: int) -> float:
    """Return P(Bin(trials, 1/2) >= count), exactly rounded once."""
    favourable = sum(math.comb(trials, k) for k in range(max(count, 0), trials + 1))
    return float(favourable / 2**trials)


def sign_test(values: Sequence[float], centre: float) -> float:
    """Return the exact two-sided p-value of "the median is ``centre``"; ties with ``centre`` carry no sign."""
    above = sum(value > centre for value in values)
    below = sum(value < centre for value in values)
    return min(1.0, 2 * upper_tail(above + below, max(above, below)))


def order_interval(values: Sequence[float], confidence: float) -> Interval:
    """Return the order-statistic interval of the median, at least ``confidence`` whatever the distribution.

    The pair of order statistics k and n+1-k covers with 1 - 2 P(Bin(n, 1/2) < k); k is the largest that reaches
    ``confidence``.
    """
    ordered, k = sorted(values), 0
    while 2 * upper_tail(len(ordered), len(ordered) - k) <= 1 - confidence:
        k += 1
    return Interval(ordered[k - 1], ordered[-k]) if k else Interval(-math.inf, math.inf)


def crossing_levels(units: Sequence[int], bounds: Sequence[int], chance: float = 0.5) -> list[float]:
    """Return the probability of having reached a bound, cumulated over the looks of a group-sequential count.

    Args:
        units: Units collected at each look, increasing.
        bounds: Count at which each look stops.
        chance: Chance that one unit counts; 1/2 at the margin itself, more gives power.
    """
    alive = {0: 1.0}
    spent, seen, levels = 0.0, 0, []
    for total, bound in zip(units, bounds, strict=True):
        step = total - seen
        seen = total
        steps = [math.comb(step, j) * chance**j * (1 - chance) ** (step - j) for j in range(step + 1)]
        after: dict[int, float] = {}
        for count, weight in alive.items():
            for j, probability in enumerate(steps):
                after[count + j] = after.get(count + j, 0.0) + weight * probability
        spent += sum(weight for count, weight in after.items() if count >= bound)
        alive = {count: weight for count, weight in after.items() if count < bound}
        levels.append(spent)
    return levels


@functools.cache
def spending_bounds(units: Sequence[int], alpha: float) -> tuple[int, ...]:
    """Return the smallest bounds of a group-sequential count that spend ``alpha`` as Pocock's tests do.

    By the look at ``n`` of ``N`` units at most ``alpha ln(1 + (e - 1) n / N)`` is spent (Lan and DeMets 1983). Sign
    patterns are counted as whole numbers, so that no bound hangs on rounding.

    Args:
        units: Units collected at each look, increasing; a tuple.
        alpha: Level at the margin itself, over all looks.

    Returns:
        One bound per look; more than the look's units where ``alpha`` is too small for any count to pass there.

    Raises:
        SpecError: ``alpha`` is no level between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise SpecError(f"level {alpha} is not between 0 and 1")
    alive, seen, crossed = {0: 1}, 0, 0
    bounds: list[int] = []
    for total in units:
        for _ in range(total - seen):
            alive = {count: alive.get(count, 0) + alive.get(count - 1, 0) for count in range(max(alive) + 2)}
        crossed, seen = crossed << (total - seen), total
        budget = Fraction(alpha * math.log(1 + (math.e - 1) * total / units[-1])) * 2**total
        bound = total + 1
        while crossed + alive.get(bound - 1, 0) <= budget:
            bound -= 1
            crossed += alive.get(bound, 0)
        bounds.append(bound)
        alive = {count: ways for count, ways in alive.items() if count < bound}
    return tuple(bounds)
