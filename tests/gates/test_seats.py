from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import CandidateEvidence, NullControl, WitnessEvidence
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, Seat, SeatFacts
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.gates import seats


def facts(seat: Seat) -> SeatFacts:
    return SeatFacts("s", seat, variant={}, dims={}, slots={}, constants={}, dtype="float32", points={})


@pytest.fixture
def witness() -> WitnessEvidence:
    found = tuple(facts(ModuleSeat(path)) for path in ("a", "b"))
    host = HostFacts("h", "m.H", {}, "0", {}, "trained", "file")
    null = NullControl(1, (), (), (), ())
    return WitnessEvidence(
        host=host,
        host_output="values",
        null=null,
        seats=found,
        not_replaced=(),
        calls=(),
        weights={"a": "0", "b": "1"},
        heldout_digest="",
        calibration_digest="",
        parameters=1,
        zeroed={},
        seconds=1.0,
    )


def words(refused: tuple[Refusal, ...]) -> dict[str, str]:
    return {refusal.at: refusal.reason for refusal in refused}


def test_every_seat_survives(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    verdict = seats.judge(witness, candidate, wanted=("b", "a"))
    assert (verdict.survivors, verdict.refused) == (("b", "a"), ())


def test_a_seat_refused_at_bind_leaves_the_others(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    spoiled = replace(candidate, bound=("a",), refused=(Refusal("bind", "envelope", "K too large", at="b"),))
    verdict = seats.judge(witness, spoiled, wanted=("a", "b"))
    assert verdict.survivors == ("a",)
    assert words(verdict.refused) == {"b": "envelope"}


def test_a_seat_that_vanished_is_unaccounted(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    verdict = seats.judge(witness, replace(candidate, bound=("a",)), wanted=("a", "b"))
    assert words(verdict.refused) == {"b": "unaccounted"}


def test_a_seat_nobody_asked_for_is_named(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    verdict = seats.judge(witness, candidate, wanted=("a",))
    assert words(verdict.refused) == {"b": "not_asked"}
    assert verdict.survivors == ("a",)


def test_a_seat_the_host_lacks_is_unknown(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    verdict = seats.judge(witness, candidate, wanted=("a", "b", "c"))
    assert words(verdict.refused) == {"c": "unknown_seat"}


def test_a_seat_without_a_digest_cannot_be_certified(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    verdict = seats.judge(replace(witness, weights={"a": "0"}), candidate, wanted=("a", "b"))
    assert words(verdict.refused) == {"b": "no_digest"}


def test_two_seats_on_one_module_overlap(witness: WitnessEvidence, candidate: CandidateEvidence) -> None:
    pair = facts(PairSeat("q", ("b",)))
    spoiled = replace(witness, seats=(*witness.seats, pair), weights={**witness.weights, pair.id: "2"})
    verdict = seats.judge(spoiled, replace(candidate, bound=("a", "b", pair.id)), wanted=("a", "b", pair.id))
    assert words(verdict.refused) == {pair.id: "overlap"}
    assert verdict.survivors == ("a", "b")
