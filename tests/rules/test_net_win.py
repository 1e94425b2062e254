"""FRT-NW-1 decided by hand-made units: bounds, medians, futility, and what is no data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_frt.contracts.verdict import Inconclusive, Invalid, Pass, Refusal, Verdict
from pytest_frt.errors import SpecError
from pytest_frt.rules.exact import crossing_levels, spending_bounds
from pytest_frt.rules.net_win import (
    BY_ATTEMPT,
    QUICK,
    decide_after,
    family_level,
    judge_quick,
    judge_ratios,
    rule_of,
)

LOOKS = (24, 48, 80)


def spent(bounds: Sequence[int]) -> Fraction:
    """Chance that a fair count reaches a bound at any of the first looks, in exact fractions."""
    alive, seen, total = {0: Fraction(1)}, 0, Fraction(0)
    for units, bound in zip(LOOKS, bounds, strict=False):
        for _ in range(units - seen):
            after: dict[int, Fraction] = {}
            for count, weight in alive.items():
                for step in (0, 1):
                    after[count + step] = after.get(count + step, Fraction(0)) + weight / 2
            alive = after
        seen = units
        total += sum((weight for count, weight in alive.items() if count >= bound), Fraction(0))
        alive = {count: weight for count, weight in alive.items() if count < bound}
    return total


def pocock(alpha: float) -> tuple[int, ...]:
    """Smallest bounds that spend at most ``alpha * ln(1 + (e - 1) t)`` at information time t."""
    bounds: list[int] = []
    for units in LOOKS:
        budget = alpha * math.log(1 + (math.e - 1) * units / LOOKS[-1])
        bounds.append(next(b for b in range(units // 2, units + 2) if spent([*bounds, b]) <= budget))
    return tuple(bounds)


@pytest.mark.parametrize(("attempt", "level"), [(1, 0.0040), (2, 0.0020), (3, 0.0009)])
def test_bounds_are_the_smallest_that_spend_the_attempts_share(attempt: int, level: float) -> None:
    bounds = BY_ATTEMPT[attempt].bounds
    assert bounds == pocock(0.005 / 2 ** (attempt - 1))
    assert round(float(spent(bounds)), 4) == level
    assert crossing_levels(LOOKS, bounds)[-1] == pytest.approx(float(spent(bounds)), rel=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.0005, 1e-8])
def test_bounds_of_any_level_are_the_smallest_that_spend_it(alpha: float) -> None:
    assert spending_bounds(LOOKS, alpha) == pocock(alpha)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_what_is_no_level_has_no_bounds(alpha: float) -> None:
    with pytest.raises(SpecError, match="level"):
        spending_bounds(LOOKS, alpha)


def test_family_of_twenty_takes_the_counts_of_its_share() -> None:
    rule = rule_of(1, family_level(0.01, 20))
    assert rule is not None
    assert rule.bounds == (21, 37, 56)
    assert round(float(spent(rule.bounds)), 4) == 0.0004


@pytest.mark.parametrize("attempt", [2, 3])
def test_attempts_of_a_family_halve_its_share(attempt: int) -> None:
    rule = rule_of(attempt, 0.0005)
    assert rule is not None
    assert rule.bounds == pocock(0.0005 / 2 ** (attempt - 1))


@pytest.mark.parametrize("alpha", [None, 0.005, 0.4], ids=["none", "own", "looser"])
def test_family_never_loosens_the_rule(alpha: float | None) -> None:
    assert [rule_of(attempt, alpha) for attempt in (0, 1, 2, 3, 4)] == [None, *BY_ATTEMPT.values(), None]
    assert family_level(alpha or 1.0, 1) == 0.005


@given(st.lists(st.lists(st.floats(0.95, 1.2), min_size=10, max_size=10), min_size=8, max_size=8))
@settings(max_examples=100, deadline=None)
def test_what_a_family_passes_a_verifier_passes_too(processes: list[list[float]]) -> None:
    if isinstance(judge_ratios(processes, alpha=0.0005), Pass):
        assert isinstance(judge_ratios(processes), Pass)


def test_quick_bound_is_the_smallest_at_half_a_percent() -> None:
    tails = {count: sum(math.comb(12, k) for k in range(count, 13)) / 2**12 for count in range(13)}
    assert QUICK.bounds == (min(count for count, tail in tails.items() if tail <= 0.005),)


@pytest.mark.parametrize(("chance", "power"), [(0.65, 0.42), (0.70, 0.76), (0.75, 0.96), (0.80, 0.998)])
def test_power_by_chance_of_a_plus_sign(chance: float, power: float) -> None:
    assert crossing_levels(LOOKS, BY_ATTEMPT[1].bounds, chance)[-1] == pytest.approx(power, abs=0.005)


def grid(wins: int, *, units: int = 3, win: float = 1.05, loss: float = 1.015) -> list[list[float]]:
    """Eight processes whose last ``wins`` units, dealt round, beat the margin."""
    flat = [loss if index < 8 * units - wins else win for index in range(8 * units)]
    return [flat[process::8] for process in range(8)]


def late_losses(losses: int) -> list[list[float]]:
    """Eight processes of ten units: neither of the first looks decides, and ``losses`` units miss the margin."""
    flat = [1.015] * 15 + [1.05] * (80 - losses) + [1.015] * (losses - 15)
    return [flat[process::8] for process in range(8)]


LOOK_CASES: dict[str, tuple[list[list[float]], type[Verdict] | None]] = {
    "look_1_at_its_bound": (grid(20), Pass),
    "look_1_one_short": (grid(19), None),
    "look_2_at_its_bound": (grid(34, units=6), Pass),
    "look_2_one_short": (grid(33, units=6), None),
    "look_2_out_of_reach": (grid(21, units=6), Refusal),
    "look_3_at_its_bound": (grid(54, units=10), Pass),
    "look_3_one_short": (late_losses(27), Inconclusive),
    "look_3_median_under_the_margin": (late_losses(41), Refusal),
    "loss_at_look_1": ([[0.99] * 3] * 8, Refusal),
    "futile_before_the_last_process": ([[1.015] * 10] * 3, Refusal),
    "not_yet_futile": ([[1.015] * 10] * 2, None),
    "nothing_collected": ([], None),
    "seven_processes_never_pass": ([[1.5] * 10] * 7, None),
}


@pytest.mark.parametrize(("processes", "expected"), LOOK_CASES.values(), ids=LOOK_CASES)
def test_look(processes: list[list[float]], expected: type[Verdict] | None) -> None:
    verdict = decide_after(processes)
    assert type(verdict) is (expected or type(None)), verdict


@pytest.mark.parametrize("attempt", BY_ATTEMPT)
def test_each_attempt_uses_its_own_first_bound(attempt: int) -> None:
    bound = BY_ATTEMPT[attempt].bounds[0]
    assert isinstance(decide_after(grid(bound), attempt=attempt), Pass)
    assert decide_after(grid(bound - 1), attempt=attempt) is None


@pytest.mark.parametrize(("bad", "passes"), [(1, True), (2, False)], ids=["one_bad_start_forgiven", "two_bad_starts"])
def test_process_medians_guard_the_start(bad: int, *, passes: bool) -> None:
    processes = [[1.5, 1.005, 1.005]] * bad + [[1.5] * 3] * (8 - bad)
    assert isinstance(decide_after(processes), Pass) is passes


@pytest.mark.parametrize("ratio", [math.nan, math.inf, -math.inf, 0.0, -1.0])
@pytest.mark.parametrize("place", [(0, 0), (7, 9)], ids=["first", "last"])
def test_a_ratio_that_is_none_voids_the_run(ratio: float, place: tuple[int, int]) -> None:
    processes = [[1.5] * 10 for _ in range(8)]
    processes[place[0]][place[1]] = ratio
    verdict = judge_ratios(processes)
    assert isinstance(verdict, Invalid)
    assert verdict.guard == "ratio"


@pytest.mark.parametrize(
    ("processes", "attempt", "guard"),
    [
        pytest.param([[1.5] * 10] * 9, 1, "process_count", id="ninth_process"),
        pytest.param([[1.5] * 11] * 8, 1, "unit_count", id="eleventh_unit"),
        pytest.param([[1.5] * 10] * 7, 1, "incomplete", id="seven_processes"),
        pytest.param([[1.5] * 10] * 7 + [[1.5] * 2], 1, "incomplete", id="last_process_short_of_look_1"),
        pytest.param([], 1, "incomplete", id="no_process"),
        pytest.param([[1.5] * 10] * 8, 4, "attempts", id="fourth_attempt"),
        pytest.param([[1.5] * 10] * 8, 0, "attempts", id="attempt_zero"),
    ],
)
def test_data_that_is_none_of_the_rule_voids_the_run(processes: list[list[float]], attempt: int, guard: str) -> None:
    verdict = judge_ratios(processes, attempt=attempt)
    assert isinstance(verdict, Invalid)
    assert verdict.guard == guard


units = st.lists(st.floats(0.9, 1.2), min_size=10, max_size=10)


@given(st.lists(units, min_size=8, max_size=8))
@settings(max_examples=100, deadline=None)
def test_collecting_by_looks_ends_where_judging_the_whole_does(processes: list[list[float]]) -> None:
    stages = (decide_after([process[:look] for process in processes]) for look in (3, 6, 10))
    assert next(verdict for verdict in stages if verdict) == judge_ratios(processes)


@given(st.lists(units, min_size=8, max_size=8))
@settings(max_examples=100, deadline=None)
def test_swapping_the_arms_never_passes_both_ways(processes: list[list[float]]) -> None:
    swapped = [[1 / ratio for ratio in process] for process in processes]
    verdicts = judge_ratios(processes), judge_ratios(swapped)
    if any(isinstance(verdict, Pass) for verdict in verdicts):
        assert sorted(type(verdict).__name__ for verdict in verdicts) == ["Pass", "Refusal"]


def test_verdict_states_the_numbers_behind_it() -> None:
    processes = [[1.03, 1.05, 1.04 + index / 1000] for index in range(8)]
    verdict = judge_ratios(processes)
    assert isinstance(verdict, Pass)
    numbers = {number.metric: number.value for number in verdict.measured}
    flat = sorted(chain.from_iterable(processes))
    assert numbers["pooled_median"] == (flat[11] + flat[12]) / 2
    assert numbers["wins"] == 24
    # 24 units: 2 P(Bin(24, 1/2) <= 5) = 0.0066 and <= 6 gives 0.023, so the sixth smallest and sixth largest.
    assert (numbers["interval_low"], numbers["interval_high"]) == (flat[5], flat[-6])
    assert sum(number.metric == "process_median" for number in verdict.measured) == 8


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        pytest.param([[1.1] * 4] * 3, Pass, id="clear_win"),
        pytest.param([[1.1] * 4, [1.1] * 4, [1.1, 1.1, 1.1, 1.0]], Pass, id="eleven_of_twelve"),
        pytest.param([[1.1] * 4, [1.1] * 4, [1.1, 1.1, 1.0, 1.0]], Inconclusive, id="ten_of_twelve"),
        pytest.param([[0.9] * 4] * 3, Refusal, id="loss"),
        pytest.param([[1.1] * 4] * 2, Invalid, id="a_process_missing"),
        pytest.param([[1.1] * 4] * 4, Invalid, id="a_process_too_many"),
        pytest.param([[math.nan] * 4] * 3, Invalid, id="nan"),
    ],
)
def test_quick_form(processes: list[list[float]], expected: type[Verdict]) -> None:
    verdict = judge_quick(processes)
    assert isinstance(verdict, expected), verdict
    assert getattr(verdict, "band", "provisional") == "provisional"
