"""Seats: every seat asked for is either bound or refused with a reason, and no two bound seats overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_frt.contracts.evidence import CandidateEvidence, WitnessEvidence
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.verdict import Measured, Refusal, SeatVerdicts

GATE: Final = "seats"


def judge(witness: WitnessEvidence, candidate: CandidateEvidence, *, wanted: Sequence[str]) -> SeatVerdicts:
    """Account for every seat.

    Args:
        witness: What the host offers.
        candidate: What the impl took.
        wanted: Seat ids the record asks for, in order.

    Returns:
        Survivors in the order of ``wanted``. Refused: what the candidate refused, and seats with reason
        ``unknown_seat``, ``unaccounted``, ``no_digest``, ``overlap`` or ``not_asked``.
    """
    found = {facts.id: facts for facts in witness.seats}
    refused: list[Refusal] = list(candidate.refused)
    said = {refusal.at for refusal in refused}
    bound = set(candidate.bound)
    survivors: list[str] = []
    taken: dict[str, str] = {}
    for seat in (seat for seat in wanted if seat not in said):
        problem = _problem(found.get(seat), seat, bound=seat in bound, digest=seat in witness.weights)
        problem = problem or _overlap(found[seat], taken)
        if problem:
            refused.append(problem)
            continue
        survivors.append(seat)
        taken |= dict.fromkeys(found[seat].seat.places, seat)
    strangers = [seat for seat in candidate.bound if seat not in set(wanted)]
    refused += [Refusal(GATE, "not_asked", f"seat {seat} was bound and not asked for", at=seat) for seat in strangers]
    measured = Measured("certified", len(survivors), ">=", 1, len(wanted))
    return SeatVerdicts(GATE, tuple(survivors), tuple(refused), (measured,))


def _problem(facts: SeatFacts | None, seat: str, *, bound: bool, digest: bool) -> Refusal | None:
    if facts is None:
        return Refusal(GATE, "unknown_seat", f"the witness found no seat {seat} on this host", at=seat)
    if not bound:
        return Refusal(GATE, "unaccounted", f"seat {seat} was neither bound nor refused", at=seat)
    if not digest:
        return Refusal(GATE, "no_digest", f"seat {seat} has no weights digest to certify", at=seat)
    return None


def _overlap(facts: SeatFacts, taken: dict[str, str]) -> Refusal | None:
    for place in facts.seat.places:
        if place in taken:
            detail = f"seat {facts.id} replaces {place}, and so does {taken[place]}"
            return Refusal(GATE, "overlap", detail, at=facts.id)
    return None
