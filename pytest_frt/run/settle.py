"""Settle units on a host: try them, take out the seats that do not hold, and try the rest again until it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_frt.contracts.verdict import Crashed, Pass, Refusal, SeatVerdicts, Verdict
from pytest_frt.gates import ledger, parity, seats
from pytest_frt.rules.fold import NO_CALLS, NO_SEATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_frt.contracts.job import HostRef, UnitRef
    from pytest_frt.contracts.structure import Limit
    from pytest_frt.run.stages import Stages, Tried, Witnessed

MAX_TRIES = 4
"""Each try takes out at least one seat; a set that still moves after four is no set to certify."""


def required_checks() -> tuple[str, ...]:
    """Return every contract check that a record must show."""
    from pytest_frt.lab.census import CHECK
    from pytest_frt.seat.lifecycle import CHECKS, NEVER_CALLED

    return (NEVER_CALLED, *(check.__name__ for check in CHECKS), CHECK)


@dataclass(frozen=True, slots=True)
class Question:
    """What is being settled.

    Attributes:
        host: The host.
        units: Units with the seats asked for; empty means every seat of the structure.
        phase: Row regime.
        form: Deployment form.
        limits: Structure name to its limits.
    """

    host: HostRef
    units: tuple[UnitRef, ...]
    phase: str
    form: str
    limits: dict[str, tuple[Limit, ...]]


@dataclass(frozen=True, slots=True)
class Settled:
    """Where it came to rest.

    Attributes:
        verdicts: Verdict per gate: ``seats``, ``parity``, ``ledger``; a gate after one that does not hold is missing.
        refused: Gate to the seats it took out, over all tries.
        survivors: Seats that stand.
        units: The units, each with exactly its surviving seats; units without any are gone.
        tried: The last try; None when the worker died.
        parity: The last try's parity verdict.
        ledger: The last try's ledger verdict.
    """

    verdicts: dict[str, Verdict]
    refused: dict[str, tuple[Refusal, ...]]
    survivors: tuple[str, ...]
    units: tuple[UnitRef, ...]
    tried: Tried | None
    parity: parity.ParityVerdict | None = None
    ledger: SeatVerdicts | None = None


def as_verdict(found: SeatVerdicts) -> Verdict:
    """Return one verdict: it holds while a seat survives."""
    if found.survivors:
        return Pass(found.gate, found.measured)
    if not found.refused:
        return Refusal(found.gate, "no_seats", "no seat reached this gate")
    first = found.refused[0]
    return Refusal(
        found.gate, first.reason, f"{len(found.refused)} seats refused, first: {first.detail}", first.at, first.measured
    )


def wanted(units: Sequence[UnitRef], witnessed: Witnessed) -> tuple[UnitRef, ...]:
    """Return the units with their seats spelled out, in witness order."""
    found = witnessed.evidence.seats
    spelled = []
    for unit in units:
        ids = tuple(s.id for s in found if s.structure == unit.structure and (not unit.seats or s.id in unit.seats))
        spelled.append(replace(unit, seats=ids))
    return tuple(spelled)


def _keep(units: Sequence[UnitRef], survivors: Sequence[str]) -> tuple[UnitRef, ...]:
    left = (replace(unit, seats=tuple(seat for seat in unit.seats if seat in survivors)) for unit in units)
    return tuple(unit for unit in left if unit.seats)


def _terms(question: Question, units: Sequence[UnitRef], tried: Tried, witnessed: Witnessed) -> parity.Terms:
    terms = {
        seat: parity.SeatTerms(
            tried.limits[unit.id], question.limits.get(unit.structure, ()), witnessed.evidence.weights[seat]
        )
        for unit in units
        for seat in unit.seats
        if unit.id in tried.limits
    }
    return parity.Terms(terms, witnessed.evidence.host_output, witnessed.evidence.host.weights)


class Settling:
    """One settlement in progress; ``run`` returns where it came to rest."""

    def __init__(self, stages: Stages, question: Question, witnessed: Witnessed, *, lifecycle: bool) -> None:
        self._stages, self._question, self._witnessed, self._lifecycle = stages, question, witnessed, lifecycle
        self._refused: dict[str, tuple[Refusal, ...]] = {}
        self._verdicts: dict[str, Verdict] = {}

    def run(self) -> Settled:
        """Try, drop, try again."""
        units = wanted(self._question.units, self._witnessed)
        for _ in range(MAX_TRIES):
            settled = self._try(units)
            if settled.units == units or not settled.units:
                return settled
            units = settled.units
        detail = f"seats still drop out after {MAX_TRIES} tries"
        return self._rest(Refusal("parity", "unstable", detail), (), (), None)

    def _try(self, units: tuple[UnitRef, ...]) -> Settled:
        question = self._question
        asked = [seat for unit in units for seat in unit.seats]
        if not asked:
            names = ", ".join(sorted({unit.structure for unit in question.units}))
            return self._rest(Refusal("seats", NO_SEATS, f"the host has no seat for {names}"), (), (), None)
        if not any(self._calls(unit) for unit in units):
            low, high = min(unit.rows[0] for unit in units), max(unit.rows[1] for unit in units)
            detail = f"the host calls none of the {len(asked)} seats with {low} to {high} rows in {question.phase}"
            return self._rest(Refusal("seats", NO_CALLS, detail), (), (), None)
        tried = self._stages.attempt(question, units, self._witnessed, lifecycle=self._lifecycle)
        if isinstance(tried, Crashed | Refusal):
            return self._rest(replace(tried, gate="seats"), (), (), None)
        found = seats.judge(self._witnessed.evidence, tried.evidence, wanted=asked)
        if not self._holds(found):
            return self._rest(None, (), (), tried)
        if found.refused:
            return self._rest(None, found.survivors, _keep(units, found.survivors), tried)
        judged = parity.judge(tried.parity, tried.evidence, _terms(question, units, tried, self._witnessed))
        self._note("parity", judged.seats.refused)
        if judged.seats.refused and judged.seats.survivors and not tried.tampered:
            return self._rest(None, judged.seats.survivors, _keep(units, judged.seats.survivors), tried)
        self._verdicts["parity"] = self._whole(tried, judged)
        if not isinstance(self._verdicts["parity"], Pass):
            return self._rest(None, (), (), tried, judged)
        return self._counted(units, tried, judged)

    def _calls(self, unit: UnitRef) -> int:
        """Return how many calls the untouched host makes of a unit's seats with rows that it admits."""
        mine = [facts for facts in self._witnessed.evidence.calls if facts.phase == self._question.phase]
        return sum(ledger.split(facts, unit.rows)[0] for facts in mine if facts.seat in unit.seats)

    @staticmethod
    def _whole(tried: Tried, judged: parity.ParityVerdict) -> Verdict:
        """Return the parity verdict; seats that hold at their seams prove nothing of a host that was never run."""
        if tried.tampered:
            return Refusal("parity", "tampered", f"the candidate changed {', '.join(tried.tampered)} while it ran")
        if judged.seats.refused:
            return judged.verdict
        if tried.died:
            return tried.died
        if not tried.evidence.composed:
            return Refusal("parity", "unjudged", "the candidate did not run the host with its seats")
        return judged.verdict

    def _counted(self, units: tuple[UnitRef, ...], tried: Tried, judged: parity.ParityVerdict) -> Settled:
        bands = {seat: unit.rows for unit in units for seat in unit.seats}
        calls = self._witnessed.evidence.calls
        counts = ledger.judge(tried.evidence.ledger, calls, seats=tuple(bands), bands=bands, phase=self._question.phase)
        if not self._holds(counts):
            return self._rest(None, (), (), tried, judged, counts)
        return self._rest(None, counts.survivors, _keep(units, counts.survivors), tried, judged, counts)

    def _holds(self, found: SeatVerdicts) -> bool:
        self._note(found.gate, found.refused)
        self._verdicts[found.gate] = as_verdict(found)
        return bool(found.survivors)

    def _note(self, gate: str, refused: tuple[Refusal, ...]) -> None:
        known = {refusal.at for refusal in self._refused.get(gate, ())}
        fresh = tuple(refusal for refusal in refused if refusal.at not in known)
        self._refused[gate] = (*self._refused.get(gate, ()), *fresh)

    def _rest(
        self,
        verdict: Verdict | None,
        survivors: tuple[str, ...],
        units: tuple[UnitRef, ...],
        tried: Tried | None,
        judged: parity.ParityVerdict | None = None,
        counts: SeatVerdicts | None = None,
    ) -> Settled:
        if verdict is not None:
            self._verdicts[verdict.gate] = verdict
        return Settled(dict(self._verdicts), dict(self._refused), survivors, units, tried, judged, counts)
