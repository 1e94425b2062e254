"""Folding: the first gate that does not hold names the outcome; exit codes follow the outcomes."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.verdict import (
    Crashed,
    Inconclusive,
    Invalid,
    NotRun,
    Outcome,
    Pass,
    Refusal,
    SeatVerdicts,
    Verdict,
)
from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES, Folded, exit_code, fold

ALL: list[Verdict | SeatVerdicts] = [
    SeatVerdicts(gate, ("a",)) if gate in {"seats", "ledger"} else Pass(gate) for gate in RECORD_GATES
]


def with_verdict(verdict: Verdict | SeatVerdicts) -> list[Verdict | SeatVerdicts]:
    return [verdict if given.gate == verdict.gate else given for given in ALL]


def test_everything_holds() -> None:
    assert fold(ALL) == Folded(Outcome.CERTIFIED, correct=True)


@pytest.mark.parametrize(
    ("verdict", "outcome", "reason", "correct"),
    [
        pytest.param(Refusal("parity", "nan", "x"), Outcome.REFUSED, "nan", False, id="parity"),
        pytest.param(Refusal("null_control", "rng", "x"), Outcome.REFUSED, "rng", False, id="null"),
        pytest.param(Refusal("net_win", "no_win", "x"), Outcome.CORRECT_NOT_FASTER, "no_win", True, id="slower"),
        pytest.param(Inconclusive("net_win", "x"), Outcome.INCONCLUSIVE, "inconclusive", True, id="cannot_tell"),
        pytest.param(Invalid("net_win", "canary", "x"), Outcome.INVALID_RUN, "canary", True, id="canary"),
        pytest.param(Crashed("parity", "CRASH", "x"), Outcome.CRASH, "crash", False, id="crash"),
        pytest.param(Crashed("contract", "TIMEOUT", "x"), Outcome.TIMEOUT, "timeout", False, id="hang"),
        pytest.param(NotRun("net_win", "x"), Outcome.NOT_RUN, "not_run", True, id="not_timed"),
        pytest.param(Pass("net_win", band="provisional"), Outcome.INCONCLUSIVE, "provisional", True, id="quick"),
        pytest.param(SeatVerdicts("ledger", ()), Outcome.REFUSED, "no_seats", False, id="no_seat_left"),
    ],
)
def test_one_gate_decides(verdict: Verdict | SeatVerdicts, outcome: Outcome, reason: str, *, correct: bool) -> None:
    folded = fold(with_verdict(verdict))
    assert (folded.outcome, folded.gate, folded.reason, folded.correct) == (outcome, verdict.gate, reason, correct)


def test_first_cause_in_gate_order_wins_whatever_the_order_given() -> None:
    later = [Crashed("net_win", "CRASH", "x"), NotRun("contract", "parity"), Refusal("parity", "gain", "x")]
    verdicts = [*later, *(given for given in ALL if given.gate not in {"net_win", "contract", "parity"})]
    assert fold(verdicts).reason == "gain"


@pytest.mark.parametrize("gate", RECORD_GATES)
def test_a_gate_that_was_not_judged_certifies_nothing(gate: str) -> None:
    folded = fold([given for given in ALL if given.gate != gate])
    assert (folded.outcome, folded.gate) == (Outcome.NOT_RUN, gate)


def test_a_refused_seat_leaves_the_others() -> None:
    some = SeatVerdicts("ledger", ("a",), (Refusal("ledger", "never_called", "x", at="b"),))
    assert fold(with_verdict(some)).outcome is Outcome.CERTIFIED


def test_all_seats_refused_names_the_commonest_reason() -> None:
    words = ["nan", "gain", "gain"]
    seats = SeatVerdicts("seats", (), tuple(Refusal("bind", word, "x", at=word) for word in words))
    assert fold(with_verdict(seats)).reason == "gain"


def test_a_second_verdict_of_a_gate_counts() -> None:
    assert fold([*ALL, Refusal("parity", "host_band", "x")]).reason == "host_band"


def test_a_verdict_of_an_unknown_gate_counts() -> None:
    assert fold([*ALL, Refusal("extra", "bad", "x")]).outcome is Outcome.REFUSED


def test_warn_travels() -> None:
    assert fold(with_verdict(Pass("parity", band="warn"))).band == "warn"


def test_plan_folds_its_one_gate() -> None:
    assert fold([Pass("union")], PLAN_GATES) == Folded(Outcome.CERTIFIED, correct=True)
    assert fold([Refusal("union", "no_win", "x")], PLAN_GATES).outcome is Outcome.CORRECT_NOT_FASTER


CERTIFIED = Folded(Outcome.CERTIFIED, correct=True)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param([CERTIFIED], 0, id="certified"),
        pytest.param([CERTIFIED, Folded(Outcome.CORRECT_NOT_FASTER, "net_win", "no_win")], 0, id="one_not_faster"),
        pytest.param([CERTIFIED, Folded(Outcome.INCONCLUSIVE, "net_win")], 0, id="one_inconclusive"),
        pytest.param([CERTIFIED, Folded(Outcome.REFUSED, "seats", "envelope")], 0, id="a_seat_that_does_not_fit"),
        pytest.param([CERTIFIED, Folded(Outcome.REFUSED, "parity", "nan")], 1, id="parity"),
        pytest.param([CERTIFIED, Folded(Outcome.REFUSED, "union", "host_band")], 1, id="union"),
        pytest.param([CERTIFIED, Folded(Outcome.CRASH, "net_win")], 1, id="crash"),
        pytest.param([CERTIFIED, Folded(Outcome.TIMEOUT, "net_win")], 1, id="hang"),
        pytest.param([CERTIFIED, Folded(Outcome.INVALID_RUN, "net_win")], 1, id="invalid"),
        pytest.param([Folded(Outcome.CORRECT_NOT_FASTER, "net_win", correct=True)], 6, id="nothing_pays"),
        pytest.param([Folded(Outcome.NOT_SUPPORTED)], 6, id="absent_device"),
        pytest.param([], 6, id="nothing"),
    ],
)
def test_exit_code(records: list[Folded], code: int) -> None:
    assert exit_code(records) == code


@pytest.mark.parametrize(("timing", "code"), [(True, 6), (False, 0)])
def test_without_timing_correct_is_enough(code: int, *, timing: bool) -> None:
    assert exit_code([fold(with_verdict(NotRun("net_win", "off")))], timing=timing) == code
