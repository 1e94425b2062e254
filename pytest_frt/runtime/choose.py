"""Which sets of certificates are activated: the newest first, each whole or not at all, none where another one sits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pytest_frt.certs.composition import Places
from pytest_frt.certs.outcomes import Accepted, Outcome
from pytest_frt.certs.policy import Policy
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.statement import CellCertificate, Certificate, PlanCertificate
from pytest_frt.runtime.handle import SeatDecision
from pytest_frt.runtime.match import Reject
from pytest_frt.runtime.prepare import Misfit, Scene, clash, fits, prepare
from pytest_frt.seat.bind import BoundSeat

PLAN: Final = "plan"


@dataclass(frozen=True, slots=True)
class Set:
    """Certificates that may only be activated together: a plan's members, or one cell.

    Attributes:
        name: Payload sha256 of the plan or cell.
        plan: True for a plan.
        cells: The members.
        issued: When the plan was issued, or the cell where it stands alone.
        serial: Its serial.
    """

    name: str
    plan: bool
    cells: tuple[CellCertificate, ...]
    issued: datetime
    serial: int

    @classmethod
    def of(cls, certificate: Certificate, cells: tuple[CellCertificate, ...]) -> Set:
        """Return the set that a plan or a single cell is."""
        plan = isinstance(certificate, PlanCertificate)
        return cls(certificate.payload_sha256, plan, cells, certificate.issued_at, certificate.serial)

    @property
    def age(self) -> tuple[datetime, int, str]:
        """What decides which of two goes first; the name breaks ties, so that it is the same everywhere."""
        return self.issued, self.serial, self.name

    @property
    def places(self) -> frozenset[str]:
        """Every module path its seats replace."""
        return frozenset(place for cell in self.cells for seat in cell.record.seats for place in seat.facts.seat.places)


def sets_of(outcomes: Iterable[Outcome], policy: Policy) -> list[Set]:
    """Return what may be activated, the newest first: plans, or single cells where the policy composes by cell."""
    return sorted(_sets(list(outcomes), policy), key=lambda one: one.age, reverse=True)


def _sets(outcomes: Sequence[Outcome], policy: Policy) -> Iterator[Set]:
    accepted = [one for one in outcomes if isinstance(one, Accepted)]
    cells = {one.name: one.certificate for one in accepted if isinstance(one.certificate, CellCertificate)}
    if policy.composition != PLAN:
        yield from (Set.of(cell, (cell,)) for cell in cells.values())
        return
    for one in accepted:
        if isinstance(one.certificate, PlanCertificate) and one.activates:
            yield Set.of(one.certificate, tuple(cells[member] for member in one.certificate.plan.members))


class Chosen:
    """What was accepted so far, and a decision for every seat that was looked at.

    Args:
        single: Only one set may be activated: two plans together are a third, and nobody certified it.
    """

    def __init__(self, *, single: bool) -> None:
        self.bound: tuple[BoundSeat, ...] = ()
        self.seats: list[SeatDecision] = []
        self.plan = ""
        self._single = single
        self._taken: dict[str, Set] = {}
        self._places = Places()
        self._names: set[str] = set()

    def consider(self, one: Set, scene: Scene) -> None:
        """Accept a set whole, or note for each of its seats why not."""
        found = self._obstacle(one) or _misfit(one, scene) or _bind(one, scene)
        if not isinstance(found, Misfit):
            self.bound += found
            self._taken |= dict.fromkeys(one.places, one)
            self._places.add(one.places)
            self._names |= {one.name, *(cell.payload_sha256 for cell in one.cells)}
            self.plan = one.name if one.plan else ""
        self.seats += _decisions(one, found if isinstance(found, Misfit) else None)

    def among(self, outcomes: Iterable[Outcome]) -> list[Accepted]:
        """Return the certificates that are to be active: those of each set that was accepted, plans included."""
        return [one for one in outcomes if isinstance(one, Accepted) and one.name in self._names]

    def _obstacle(self, one: Set) -> Misfit | None:
        if (both := self._places.meeting(one.places)) is not None:
            theirs, ours = both
            where = ours if ours == theirs else f"{ours} and {theirs} are one inside the other, and the latter"
            return Misfit(one.cells[0], Reject("OVERLAP", f"{where} runs on {_order(self._taken[theirs], one)}"))
        if self._single and self._taken:
            other = next(iter(self._taken.values()))
            return Misfit(one.cells[0], Reject("OVERLAP", f"another plan was activated: {_order(other, one)}"))
        return None


def _order(first: Set, second: Set) -> str:
    return (
        f"{first.name}, issued {time_text(first.issued)} with serial {first.serial}; "
        f"this one was issued {time_text(second.issued)} with serial {second.serial}"
    )


def _misfit(one: Set, scene: Scene) -> Misfit | None:
    """Return the first member that does not hold here: all are asked before any is bound."""
    misfits = (Misfit(cell, reject) for cell in one.cells if (reject := fits(cell, scene)) is not None)
    return next(misfits, None) or clash(one.cells, scene)


def _bind(one: Set, scene: Scene) -> tuple[BoundSeat, ...] | Misfit:
    bound: tuple[BoundSeat, ...] = ()
    for cell in one.cells:
        found = prepare(cell, scene)
        if isinstance(found, Reject):
            return Misfit(cell, found)
        bound += found
    return bound


def _decisions(one: Set, refusal: Misfit | None) -> Iterator[SeatDecision]:
    for cell in one.cells:
        record = cell.record
        for seat in record.seats:
            used = SeatDecision(seat.facts.id, record.key.id, cell.payload_sha256)
            if refusal is None:
                yield used
            else:
                why = _why(cell, seat.facts.id, one, refusal)
                yield replace(used, code=why.code, reason=why.message, hint=why.hint)
        for at, reason in record.refused.items():
            yield SeatDecision(at, record.key.id, cell.payload_sha256, "NOT_CERTIFIED", reason)


def _why(cell: CellCertificate, seat: str, one: Set, refusal: Misfit) -> Reject:
    """Return what a seat of a refused set is told: the others, which member is the cause."""
    reject = refusal.reject
    if cell is refusal.cell and reject.seat in ("", seat):
        return reject
    at = f"seat {reject.seat}" if reject.seat else refusal.cell.record.key.id
    what = "its plan" if one.plan else "its certificate"
    return Reject(reject.code, f"{what} is refused whole, because of {at}")
