"""Edges of folding: whose sentence is said, what counts as correct, and which gates fail a run."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.verdict import NotRun, Outcome, Pass, Refusal, SeatVerdicts
from pytest_frt.rules.fold import CORRECTNESS_GATES, PLAN_GATES, RECORD_GATES, Folded, exit_code, fold

ALL = [Pass(gate) for gate in RECORD_GATES]


@pytest.mark.parametrize("reason", ["no_seats", "no_calls"])
def test_a_host_without_a_seat_that_it_calls_supports_nothing(reason: str) -> None:
    folded = fold([Pass("null_control"), Refusal("seats", reason, "x")])
    assert (folded.outcome, folded.correct) == (Outcome.NOT_SUPPORTED, False)


def test_what_a_stand_in_for_a_device_shows_is_correct_and_supports_no_claim_of_speed() -> None:
    folded = fold([*ALL[:-1], Refusal("net_win", "emulated", "x")])
    assert (folded.outcome, folded.correct) == (Outcome.NOT_SUPPORTED, True)


def test_the_commonest_reason_is_told_by_its_first_seat() -> None:
    words = [("a", "nan"), ("b", "gain"), ("c", "gain")]
    seats = SeatVerdicts("ledger", (), tuple(Refusal("ledger", word, f"{at} is off", at=at) for at, word in words))
    folded = fold([seats if one.gate == "ledger" else one for one in ALL])
    assert folded.detail == "2 of 3 refused seats: b: b is off"


def test_a_gate_that_was_not_judged_has_a_word() -> None:
    assert fold([], RECORD_GATES) == Folded(
        Outcome.NOT_RUN, "null_control", "not_run", "gate null_control was not judged"
    )


@pytest.mark.parametrize("gate", CORRECTNESS_GATES)
def test_a_missing_gate_of_correctness_leaves_nothing_correct(gate: str) -> None:
    assert not fold([one for one in ALL if one.gate != gate]).correct


@pytest.mark.parametrize(
    ("verdict", "correct"),
    [
        pytest.param(Pass("union"), True, id="holds"),
        pytest.param(Refusal("union", "no_win", "x"), True, id="slower_and_correct"),
        pytest.param(Refusal("union", "host_band", "x"), False, id="wrong"),
        pytest.param(NotRun("union", "x"), False, id="not_run"),
    ],
)
def test_a_plan_is_correct_by_its_own_gate(verdict: Pass | Refusal | NotRun, *, correct: bool) -> None:
    assert fold([verdict], PLAN_GATES).correct is correct


def test_a_plan_that_nobody_judged_is_not_correct() -> None:
    assert not fold([], PLAN_GATES).correct


def test_gates_that_are_not_required_come_after_those_that_are() -> None:
    verdicts = [Refusal("extra", "bad", "x"), *(one for one in ALL if one.gate != "net_win"), NotRun("net_win", "x")]
    assert fold(verdicts).gate == "net_win"


@pytest.mark.parametrize("gate", ["null_control", "parity", "ledger", "contract", "union"])
def test_a_refusal_of_these_gates_fails_the_run(gate: str) -> None:
    assert exit_code([Folded(Outcome.REFUSED, gate, "x")]) == 1
    assert exit_code([Folded(Outcome.NOT_RUN, gate, "x")]) == 6


@pytest.mark.parametrize("gate", ["seats", "net_win", "extra"])
def test_a_refusal_of_other_gates_is_a_finding(gate: str) -> None:
    assert exit_code([Folded(Outcome.REFUSED, gate, "x")]) == 6


def test_without_timing_what_is_not_correct_proves_nothing() -> None:
    assert exit_code([Folded(Outcome.NOT_RUN, "contract")], timing=False) == 6
