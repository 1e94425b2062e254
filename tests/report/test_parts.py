"""Numbers against limits, gates and groups as the page shows them."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.verdict import Crashed, Invalid, Measured, NotRun, Pass, Refusal, Verdict
from pytest_frt.report.parts import Gate, Number, grouped, seat_strips
from pytest_frt.spec import codec


@pytest.mark.parametrize(
    ("value", "used", "place", "beyond"),
    [(0.0, "0.0%", 0, False), (1.0, "50.0%", 40, False), (2.0, "100.0%", 80, False), (6.0, "3 x", 100, True)],
    ids=["nothing", "half", "at_the_limit", "three_times"],
)
def test_share_of_a_limit(value: float, used: str, place: float, *, beyond: bool) -> None:
    number = Number.of(Measured("rel_l2", value, "<=", 2.0, 9))
    assert (number.used, number.place, number.beyond) == (used, place, beyond)


def test_count_that_leaves_no_room_is_met() -> None:
    assert Number.of(Measured("fallbacks", 0, "<=", 0, 9)).used == "met"


@pytest.mark.parametrize(
    ("verdict", "word", "why"),
    [
        (Pass("parity"), "PASSED", ""),
        (Pass("parity", band="warn"), "PASSED", "band warn"),
        (Pass("net_win", band="provisional"), "INCONCLUSIVE", "band provisional"),
        (Refusal("net_win", "no_win", "a loss"), "CORRECT_NOT_FASTER", "a loss"),
        (Invalid("net_win", "canary", "drifts"), "INVALID_RUN", "drifts"),
        (Crashed("parity", "TIMEOUT", "600 s"), "TIMEOUT", "600 s"),
        (NotRun("ledger", "parity"), "NOT_RUN", ""),
    ],
    ids=["holds", "warns", "quick", "slow", "invalid", "hangs", "not_run"],
)
def test_gate_has_its_word(verdict: Verdict, word: str, why: str) -> None:
    gate = Gate.of("parity", {"verdict": codec.to_json(verdict)})
    assert (gate.word, gate.why) == (word, why)


def test_refused_seat_shows_the_number_that_breaks_most() -> None:
    low, high = (Measured("seam.slope", value, "<=", 0.002, 9) for value in (0.003, 0.009))
    (strip,) = seat_strips({"seats": []}, [Refusal("parity", "gain", "slope", "layers.0", (high, low))])
    assert [(number.metric, number.value) for number in strip.numbers] == [("seam.slope", "0.009")]
    assert strip.refused == "gain: slope"


def test_groups_are_made_by_reason_largest_first() -> None:
    found = grouped([("tied", "a"), ("no place", "b"), ("no place", "c")])
    assert [(group.reason, group.many, group.names) for group in found] == [
        ("no place", 2, ("b", "c")),
        ("tied", 1, ("a",)),
    ]
