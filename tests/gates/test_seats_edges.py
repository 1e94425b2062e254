"""Edges of the seats gate: what follows a refused seat is still judged, and the count is over all seats asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from pytest_frt.contracts.evidence import CandidateEvidence, WitnessEvidence
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, Seat, SeatFacts
from pytest_frt.contracts.verdict import Measured, SeatVerdicts
from pytest_frt.gates import seats


def offered(seat: Seat) -> SeatFacts:
    return SeatFacts("s", seat, variant={}, dims={}, slots={}, constants={}, dtype="", points={})


def judged(found: tuple[Seat, ...], wanted: tuple[str, ...], bound: tuple[str, ...]) -> SeatVerdicts:
    facts = tuple(
        SeatFacts("s", one, variant={}, dims={}, slots={}, constants={}, dtype="", points={}) for one in found
    )
    witness = SimpleNamespace(seats=facts, weights={one.id: "0" for one in facts})
    candidate = SimpleNamespace(bound=bound, refused=())
    return seats.judge(cast("WitnessEvidence", witness), cast("CandidateEvidence", candidate), wanted=wanted)


ALONE = (ModuleSeat("a"), ModuleSeat("b"))


@pytest.mark.parametrize(("bound", "survivors"), [(("b",), ("b",)), (("a", "b"), ("a", "b")), ((), ())])
def test_seats_after_a_refused_one_are_judged(bound: tuple[str, ...], survivors: tuple[str, ...]) -> None:
    verdict = judged(ALONE, ("a", "b"), bound)
    assert verdict.survivors == survivors
    assert verdict.measured == (Measured("certified", len(survivors), ">=", 1, 2),)


def test_every_place_of_a_pair_is_taken() -> None:
    pair = PairSeat("q", ("a", "b"))
    name = offered(pair).id
    verdict = judged((pair, *ALONE), (name, "a", "b"), (name, "a", "b"))
    assert verdict.survivors == (name,)
    assert [(one.at, one.reason) for one in verdict.refused] == [("a", "overlap"), ("b", "overlap")]
    assert verdict.refused[0].detail == f"seat a replaces a, and so does {name}"


def test_a_refused_seat_takes_no_place() -> None:
    pair = PairSeat("q", ("b",))
    name = offered(pair).id
    assert judged((pair, *ALONE), (name, "b"), ("b",)).survivors == ("b",)
