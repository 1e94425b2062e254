"""Edges of FRT-NW-1: the shipped numbers, limits that do not count themselves, and what each verdict states."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.verdict import Inconclusive, Invalid, Measured, Pass, Refusal, Verdict
from pytest_frt.rules import net_win
from pytest_frt.rules.exact import spending_bounds
from pytest_frt.rules.net_win import BY_ATTEMPT, FIRST, QUICK, Rule, decide, decide_after, judge_quick, judge_ratios

SMALL = Rule("small", processes=2, looks=(2, 4), bounds=(4, 6), medians=2, margin=2.0, process_margin=1.5)


def test_shipped_rules() -> None:
    assert Rule("FRT-NW-1", 8, (3, 6, 10), (20, 34, 54), 7, 1.02, 1.01, 1.0) == FIRST
    assert {attempt: (rule.name, rule.bounds) for attempt, rule in BY_ATTEMPT.items()} == {
        1: ("FRT-NW-1", (20, 34, 54)),
        2: ("FRT-NW-1 attempt 2", (20, 35, 55)),
        3: ("FRT-NW-1 attempt 3", (21, 36, 55)),
    }
    assert Rule("quick form", 3, (4,), (11,), 3, 1.02, 1.01, 1.0) == QUICK
    assert (FIRST.units, FIRST.losses_allowed, QUICK.units, QUICK.losses_allowed) == (80, 26, 12, 1)


def test_words_of_the_gate() -> None:
    assert (net_win.GATE, net_win.NO_WIN, net_win.PROVISIONAL) == ("net_win", "no_win", "provisional")


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        pytest.param([[3.0, 3.0]] * 2, Pass, id="first_look_passes"),
        pytest.param([[3.0, 3.0], [3.0, 2.0]], None, id="the_margin_itself_is_no_win"),
        pytest.param([[3.0, 3.0], [3.0, 2.001]], Pass, id="above_the_margin"),
        pytest.param([[3.0, 3.0, 3.0], [3.0, 2.0, 3.0]], None, id="third_units_are_of_no_look"),
        pytest.param([[3.0, 3.0, 3.0, 3.0], [3.0, 2.0, 3.0, 2.0]], Pass, id="last_look_passes"),
        pytest.param([[1.0, 1.0], [9.0, 9.0]], None, id="two_losses_are_allowed"),
        pytest.param([[1.0, 1.0], [1.5, 9.0]], Refusal, id="three_losses_are_not"),
        pytest.param([[0.9, 1.1], [9.0, 9.0]], None, id="pooled_above_one"),
        pytest.param([[0.1, 0.1]], None, id="half_a_look_is_no_loss"),
        pytest.param([[0.1, 0.1], []], None, id="empty_process"),
        pytest.param([[], []], None, id="nothing_yet"),
        pytest.param([[1.0, 1.0, 1.0], []], Refusal, id="futile_before_any_look"),
    ],
)
def test_look(processes: list[list[float]], expected: type[Verdict] | None) -> None:
    verdict = decide(SMALL, processes)
    assert type(verdict) is (expected or type(None)), verdict


@pytest.mark.parametrize(("low", "passes"), [(0.0, True), (0.1, False)], ids=["median_over", "median_at_its_margin"])
def test_a_process_median_at_its_margin_is_not_over_it(low: float, *, passes: bool) -> None:
    rule = Rule("r", processes=2, looks=(2,), bounds=(2,), medians=2, margin=1.0, process_margin=1.5)
    verdict = decide(rule, [[1.4, 1.7 - low], [3.0, 3.0]])
    assert isinstance(verdict, Pass) is passes


@pytest.mark.parametrize(("pooled", "expected"), [(1.0, type(None)), (0.99, Refusal)])
def test_a_look_at_one_is_no_loss(pooled: float, expected: type[Verdict]) -> None:
    verdict = decide_after([[pooled] * 3] * 8)
    assert isinstance(verdict, expected)
    if isinstance(verdict, Refusal):
        assert verdict.detail == "pooled median 0.9900 of 24 units is a loss"


@pytest.mark.parametrize(
    ("last", "expected"), [(2.0, Refusal), (2.1, Inconclusive)], ids=["at_the_margin", "above_the_margin"]
)
def test_the_last_look_tells_cannot_tell_from_no_win(last: float, expected: type[Verdict]) -> None:
    rule = Rule("r", processes=2, looks=(2,), bounds=(4,), medians=2, margin=2.0, process_margin=1.5)
    verdict = decide(rule, [[3.0, last], [last, 1.6]])
    assert isinstance(verdict, expected)
    assert verdict.measured[3] == Measured("wins", 1 if last == 2.0 else 3, ">=", 4, 4)


def test_a_pass_states_every_number_with_the_bound_of_its_look() -> None:
    verdict = decide(SMALL, [[3.0, 5.0], [4.0, 8.0]])
    infinite = float("inf")
    assert verdict == Pass(
        "net_win",
        (
            Measured("pooled_median", 4.5, ">", 2.0, 4),
            Measured("interval_low", -infinite, ">", 2.0, 4),
            Measured("interval_high", infinite, ">", 2.0, 4),
            Measured("wins", 4, ">=", 4, 4),
            Measured("process_medians_over", 2, ">=", 2, 2),
            Measured("process_median", 4.0, ">", 1.5, 1, at="process 0"),
            Measured("process_median", 6.0, ">", 1.5, 1, at="process 1"),
        ),
    )


@pytest.mark.parametrize(
    ("processes", "words"),
    [
        pytest.param([[1.0, 1.0, 1.0], []], "3 of 3 units are not above 2.0: 6 of 8", id="futile"),
        pytest.param([[0.5, 0.5]] * 2, "pooled median 0.5000 of 4 units is a loss", id="loss"),
        pytest.param([[3.0, 1.0, 3.0, 1.0]] * 2, "4 of 8 units above 2.0 (needs 6), 2 of 2", id="last_look"),
    ],
)
def test_what_does_not_pass_is_held_to_the_last_bound(processes: list[list[float]], words: str) -> None:
    verdict = decide(SMALL, processes)
    assert isinstance(verdict, Refusal | Inconclusive)
    assert words in verdict.detail
    assert {number.required for number in verdict.measured if number.metric == "wins"} == {6}


@pytest.mark.parametrize(
    ("processes", "guard", "words"),
    [
        ([[3.0]] * 3, "process_count", "3 processes, small takes 2"),
        ([[3.0], [3.0] * 5], "unit_count", "process 1 gave 5 units, small takes at most 4"),
        ([[3.0], [3.0, 0.0]], "ratio", "process 1 unit 1 has ratio 0.0"),
    ],
    ids=["processes", "units", "ratio"],
)
def test_data_of_no_rule_is_named(processes: list[list[float]], guard: str, words: str) -> None:
    verdict = decide(SMALL, processes)
    assert isinstance(verdict, Invalid)
    assert (verdict.gate, verdict.guard) == ("net_win", guard)
    assert words in verdict.detail


def test_the_smallest_ratio_is_a_ratio() -> None:
    assert decide(SMALL, [[1e-9]]) is None


@pytest.mark.parametrize(("alpha", "members", "level"), [(0.01, 4, 0.0025), (0.01, 1, 0.005), (0.002, 2, 0.001)])
def test_a_family_shares_its_level(alpha: float, members: int, level: float) -> None:
    assert net_win.family_level(alpha, members) == level


def test_a_rule_of_a_family_has_bounds_and_a_name_of_its_own() -> None:
    rule = net_win.rule_of(2, 0.004)
    assert rule is not None
    assert (rule.name, rule.bounds) == ("FRT-NW-1 attempt 2 at level 0.004", spending_bounds((24, 48, 80), 0.002))
    assert net_win.rule_of(1, 0.005) is FIRST


def test_what_decides_nothing_is_incomplete() -> None:
    verdict = judge_ratios([[1.5] * 3] * 2)
    assert verdict == Invalid("net_win", "incomplete", "6 units of 2 processes decide nothing; FRT-NW-1 goes up to 80")
    quick = judge_quick([[1.5] * 4])
    assert quick == Invalid("net_win", "incomplete", "4 units of 1 processes decide nothing; quick form goes up to 12")


@pytest.mark.parametrize("attempt", [0, 4])
def test_there_are_three_attempts(attempt: int) -> None:
    verdict = decide_after([], attempt=attempt)
    assert isinstance(verdict, Invalid)
    assert (verdict.guard, verdict.detail.startswith(f"attempt {attempt} of at most 3")) == ("attempts", True)


def test_the_first_attempt_is_meant_when_none_is_named() -> None:
    twenty = [[1.5] * 3] * 6 + [[1.5, 1.5, 1.0], [1.0, 1.0, 1.0]]
    assert isinstance(judge_ratios(twenty), Pass)
    assert isinstance(decide_after(twenty), Pass)
    assert decide_after(twenty, attempt=3) is None


@pytest.mark.parametrize("processes", [[[0.9] * 3] * 8, [[1.015] * 10] * 3], ids=["loss", "futile"])
def test_a_refusal_of_the_shipped_rule_is_held_to_its_last_bound(processes: list[list[float]]) -> None:
    verdict = decide_after(processes)
    assert isinstance(verdict, Refusal)
    assert verdict.measured[3].required == 54
