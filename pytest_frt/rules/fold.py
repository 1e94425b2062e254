"""Fold the gates of one record into one outcome, and the outcomes of a run into its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
from pytest_frt.rules.net_win import NO_WIN, PROVISIONAL

NO_SEATS: Final = "no_seats"
"""Reason of the ``seats`` gate on a host that has no seat of the structure."""
NO_CALLS: Final = "no_calls"
"""Reason of the ``seats`` gate where the untouched host calls none of the seats with rows that the impl admits."""
CORRECTNESS_GATES: Final = ("null_control", "seats", "parity", "ledger", "contract")
"""What must hold for a record to be called correct."""
RECORD_GATES: Final = (*CORRECTNESS_GATES, "net_win")
"""Every gate a certified record passed, in order: the first that does not hold names the outcome."""
PLAN_GATES: Final = ("union",)
"""Gates of a plan; its members passed theirs."""
EMULATED: Final = "emulated"
"""Reason of the ``net_win`` gate where a CPU stands in for an absent device: its time says nothing of that one."""
WORDS: Final = {
    NO_WIN: Outcome.CORRECT_NOT_FASTER,
    NO_SEATS: Outcome.NOT_SUPPORTED,
    NO_CALLS: Outcome.NOT_SUPPORTED,
    EMULATED: Outcome.NOT_SUPPORTED,
}
"""Refusals by reason that have a word of their own: a host without a seat for a structure refuses nothing."""
FAILING_GATES: Final = frozenset({"null_control", "parity", "ledger", "contract", "union"})
"""A refusal here is a failure of the run. A seat that cannot be taken (``seats``) is a finding."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What one record came to.

    Attributes:
        outcome: The word a person reads.
        gate: Gate that decided; empty when every gate passed.
        reason: Stable word; empty when every gate passed.
        detail: Sentence for people.
        band: ``warn`` when any gate only reached warn, else ``pass``.
        correct: Every correctness gate passed.
    """

    outcome: Outcome
    gate: str = ""
    reason: str = ""
    detail: str = ""
    band: str = "pass"
    correct: bool = False


def _refused_seats(verdicts: SeatVerdicts) -> Folded | None:
    if verdicts.survivors:
        return None
    if not verdicts.refused:
        return Folded(Outcome.REFUSED, verdicts.gate, "no_seats", "no seat reached this gate")
    ((reason, count),) = Counter(refusal.reason for refusal in verdicts.refused).most_common(1)
    first = next(refusal for refusal in verdicts.refused if refusal.reason == reason)
    total = len(verdicts.refused)
    detail = f"{count} of {total} refused seats: {first.at}: {first.detail}"
    return Folded(Outcome.REFUSED, verdicts.gate, reason, detail)


def _decided(verdict: Verdict | SeatVerdicts) -> Folded | None:
    """Return the outcome a verdict forces, None when the gate holds."""
    match verdict:
        case SeatVerdicts():
            return _refused_seats(verdict)
        case Pass(gate=gate, band=band):
            detail = "the quick form cannot certify; run without it"
            return Folded(Outcome.INCONCLUSIVE, gate, PROVISIONAL, detail) if band == PROVISIONAL else None
        case Refusal(gate=gate, reason=reason, detail=detail):
            return Folded(WORDS.get(reason, Outcome.REFUSED), gate, reason, detail)
        case Inconclusive(gate=gate, detail=detail):
            return Folded(Outcome.INCONCLUSIVE, gate, "inconclusive", detail)
        case Invalid(gate=gate, guard=guard, detail=detail):
            return Folded(Outcome.INVALID_RUN, gate, guard, detail)
        case Crashed(gate=gate, kind=kind, detail=detail):
            return Folded(Outcome(kind), gate, kind.lower(), detail)
        case NotRun(gate=gate, because=because):
            return Folded(Outcome.NOT_RUN, gate, "not_run", because)


def _correct(verdicts: Sequence[Verdict | SeatVerdicts], required: Sequence[str]) -> bool:
    needed = set(CORRECTNESS_GATES) & set(required) or set(required)
    passed = {verdict.gate for verdict in verdicts}
    failed = {verdict.gate for verdict in verdicts if _decided(verdict) is not None}
    no_win = {v.gate for v in verdicts if isinstance(v, Refusal) and v.reason == NO_WIN}
    return needed <= passed and not needed & (failed - no_win)


def fold(verdicts: Sequence[Verdict | SeatVerdicts], required: Sequence[str] = RECORD_GATES) -> Folded:
    """Fold the verdicts of one record or plan.

    Args:
        verdicts: Any number per gate (a gate may judge seats and then the host), in any order of gates.
        required: Gates that must have been judged, in order; ``RECORD_GATES`` or ``PLAN_GATES``.

    Returns:
        ``CERTIFIED`` only when every required gate was judged and every verdict given holds; else what the first
        gate in order that does not hold says. A required gate without a verdict is ``NOT_RUN``.
    """
    correct = _correct(verdicts, required)
    for gate in dict.fromkeys((*required, *(verdict.gate for verdict in verdicts))):
        given = [verdict for verdict in verdicts if verdict.gate == gate]
        if not given:
            return Folded(Outcome.NOT_RUN, gate, "not_run", f"gate {gate} was not judged", correct=correct)
        for verdict in given:
            if found := _decided(verdict):
                return Folded(found.outcome, found.gate, found.reason, found.detail, correct=correct)
    warned = any(isinstance(verdict, Pass) and verdict.band != "pass" for verdict in verdicts)
    return Folded(Outcome.CERTIFIED, band="warn" if warned else "pass", correct=correct)


def exit_code(records: Sequence[Folded], *, timing: bool = True) -> int:
    """Return the exit code of a run.

    Args:
        records: Every record and plan of the run, rows that were not supported included.
        timing: False when net win was switched off on purpose: correct records then count.

    Returns:
        1 for any correctness failure, crash, time-out or invalid run; else 0 with something certified (or correct);
        else 6: nothing certified and nothing failed.
    """
    broken = {Outcome.CRASH, Outcome.TIMEOUT, Outcome.INVALID_RUN}
    for record in records:
        if record.outcome in broken or (record.outcome is Outcome.REFUSED and record.gate in FAILING_GATES):
            return 1
    proven = any(record.outcome is Outcome.CERTIFIED or (not timing and record.correct) for record in records)
    return 0 if proven else 6
