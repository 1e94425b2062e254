"""Parity: per seat at the bare seam against two oracles, then the host with its seats against the host without.

Seats: ``input_mutated``, ``aliased_output``, ``poison``, ``shape``, ``stale``, ``nondeterministic``, ``layout``,
``host_written``, ``calibration``, ``unjudged``, ``channel``, ``alternative``, and the words of ``rules.seam.SEVERITY``.
Host: ``nan``, ``few_samples``, ``host_band``, ``stale``, ``no_control``, ``vacuous_control``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_frt.contracts.evidence import CandidateEvidence, Conduct, HostMetrics, ParityEvidence, SeamMetrics
from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.verdict import Measured, NotRun, Pass, Refusal, SeatVerdicts, Verdict
from pytest_frt.errors import SpecError
from pytest_frt.gates import parity_host, parity_pooled
from pytest_frt.gates.parity_host import Vacuous
from pytest_frt.rules import conduct, pooled, seam
from pytest_frt.rules.exact import meets
from pytest_frt.rules.thresholds import CALIBRATION_SAMPLES, SCALE_SHARE

GATE: Final = "parity"
REAL: Final = "real"
COLLAPSED: Final = frozenset({"nan", "zeros"})
"""Words of an answer that is none."""


@dataclass(frozen=True, slots=True)
class SeatTerms:
    """What one seat is held to.

    Attributes:
        scheme: Limits of both oracles.
        structure: Limits of the structure on real inputs: metric names are fields of ``SeamMetrics``.
        weights: Digest of the host's own tensors at the seat; empty to leave them uncompared.
    """

    scheme: SeamLimits
    structure: tuple[Limit, ...] = ()
    weights: str = ""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a record or union is held to.

    Attributes:
        seats: Seat id to its terms, in the order of the record.
        output: ``values`` or ``distribution``.
        weights: ``trained`` or ``random``.
        spread: The untouched host under two seeds, for hosts that say multimodal; empty to take the witness's.
    """

    seats: Mapping[str, SeatTerms]
    output: str
    weights: str
    spread: tuple[HostMetrics, ...] = ()


@dataclass(frozen=True, slots=True)
class ParityVerdict:
    """Both levels.

    Attributes:
        seats: Seats that hold at the seam, and those that do not.
        host: The host with every seat attached. NotRun while refused seats were still attached: it must be run
            again with the survivors alone.
    """

    seats: SeatVerdicts
    host: Verdict | Vacuous

    @property
    def verdict(self) -> Verdict:
        """The gate as one verdict."""
        if not self.seats.survivors:
            reasons = Counter(refusal.reason for refusal in self.seats.refused)
            worst = next(iter(reasons.most_common(1)), ("no_seats", 0))[0]
            first = next((refusal for refusal in self.seats.refused if refusal.reason == worst), None)
            if first is None:
                return Refusal(GATE, worst, "no seat reached this gate")
            detail = f"{reasons[worst]} of {reasons.total()} seats: {first.detail}"
            return Refusal(GATE, worst, detail, at=first.at, measured=first.measured)
        match self.host:
            case Vacuous(measured=measured):
                return Pass(GATE, (*self.seats.measured, *measured))
            case Pass(measured=measured, band=band):
                return Pass(GATE, (*self.seats.measured, *measured), band=band)
            case other:
                return other


def judge(parity: ParityEvidence, candidate: CandidateEvidence, terms: Terms) -> ParityVerdict:
    """Judge the seats at the seam and, when all of them hold, the host.

    Args:
        parity: Metrics of the oracles and of the held-out samples.
        candidate: What the worker saw of inputs, buffers and shapes.
        terms: Limits and kinds.

    Raises:
        SpecError: a structure limits a number that is not measured.
    """
    seats = _judge_seats(parity, candidate, terms)
    if seats.refused:
        because = f"{len(seats.refused)} of {len(terms.seats)} seats are refused at the seam and were attached"
        return ParityVerdict(seats, NotRun(GATE, because))
    return ParityVerdict(seats, parity_host.judge(parity, terms.output, terms.weights, spread=terms.spread))


def _judge_seats(parity: ParityEvidence, candidate: CandidateEvidence, terms: Terms) -> SeatVerdicts:
    by_seat: dict[str, list[SeamMetrics]] = {seat: [] for seat in terms.seats}
    for one in parity.seam:
        by_seat.get(one.seat, []).append(one)
    together = pooled.by_seat(parity.pooled, terms.seats)
    refused: list[Refusal] = []
    for seat, wanted in terms.seats.items():
        problem = (
            _worker_saw(seat, candidate)
            or _collapsed(by_seat[seat], wanted)
            or conduct.fault(seat, candidate.conduct, wanted.scheme, wanted.structure)
            or _written(seat, candidate, wanted)
            or _drifted(seat, parity.scale_drift.get(seat, 0.0))
            or (_scarce(seat, candidate) if seat in parity.scale_drift else None)
            or _unjudged(seat, by_seat[seat], candidate.conduct, together[seat])
            or _numbers(by_seat[seat], wanted)
            or parity_pooled.fault(together[seat], wanted.scheme)
        )
        if problem:
            refused.append(problem)
    out = {refusal.at for refusal in refused}
    survivors = tuple(seat for seat in terms.seats if seat not in out)
    schemes = [(one, terms.seats[seat].scheme) for seat in survivors for one in together[seat]]
    worst = (*_worst(by_seat, terms, survivors), *parity_pooled.worst(schemes))
    measured = (*worst, *_noise(by_seat, survivors), *conduct.reported(candidate.conduct, survivors))
    return SeatVerdicts(GATE, survivors, tuple(refused), measured)


def _worker_saw(seat: str, candidate: CandidateEvidence) -> Refusal | None:
    """Refuse what the worker saw and no metric can: entries are ``seat`` or ``seat|case...``."""
    for reason, entries, sentence in (
        ("input_mutated", candidate.mutated, "wrote to its input"),
        ("aliased_output", candidate.aliased, "returned a buffer that it wrote again"),
        ("aliased_output", candidate.misplaced, "returned memory that is not its own"),
        ("poison", candidate.poison_differing, "gave other bits under another fill of fresh memory"),
        ("shape", candidate.shapes_wrong, "returned a wrong shape or dtype"),
    ):
        if places := [entry for entry in entries if entry.partition("|")[0] == seat]:
            return Refusal(GATE, reason, f"seat {seat} {sentence}: {'; '.join(places)}", at=seat)
    return None


def _collapsed(metrics: Sequence[SeamMetrics], wanted: SeatTerms) -> Refusal | None:
    """Refuse by its numbers a seat whose real rows are wrong and which comes to nothing: no layout explains that."""
    wrong = any(one.case == REAL and _fault(one, wanted) for one in metrics)
    refusal = _numbers(metrics, wanted) if wrong else None
    return refusal if refusal and refusal.reason in COLLAPSED else None


def _written(seat: str, candidate: CandidateEvidence, wanted: SeatTerms) -> Refusal | None:
    """Refuse a seat whose host tensors are not the witness's any more: a write that no version counter shows."""
    have = candidate.weights.get(seat, "")
    if not wanted.weights or have == wanted.weights:
        return None
    detail = f"the host's tensors at seat {seat} have digest {have or 'unknown'}, the witness saw {wanted.weights}"
    return Refusal(GATE, "host_written", detail, at=seat)


def _drifted(seat: str, drift: float) -> Refusal | None:
    """Refuse scales that calibrating without impl code does not give: both oracles would judge by them."""
    if meets(drift, "<=", SCALE_SHARE.value):
        return None
    measured = Measured("scale_drift", drift, "<=", SCALE_SHARE.value, 1, at=seat)
    detail = f"scales of seat {seat} are off by {drift:.3g} of what calibrating without impl code gives"
    return Refusal(GATE, "calibration", f"{detail}: {SCALE_SHARE.because}", at=seat, measured=(measured,))


def _scarce(seat: str, candidate: CandidateEvidence) -> Refusal | None:
    """Refuse static scales of too few calibration samples."""
    count, least = candidate.calibration.samples if candidate.calibration else 0, CALIBRATION_SAMPLES
    if meets(count, ">=", least.value):
        return None
    measured = Measured("calibration_samples", count, ">=", least.value, count, at=seat)
    detail = f"scales of seat {seat} come from {count} samples, needs {least.value:g}: {least.because}"
    return Refusal(GATE, "calibration", detail, at=seat, measured=(measured,))


def _unjudged(
    seat: str, metrics: Sequence[SeamMetrics], tried: Sequence[Conduct], together: Sequence[PooledMetrics]
) -> Refusal | None:
    """Refuse a seat whose evidence lacks real inputs, cases or conduct: an empty comparison is no parity."""
    real = [one for one in metrics if one.case == REAL and (one.rows > 0 or one.mismatch)]
    cases = [one for one in metrics if one.case != REAL]
    if not real:
        lacks = "real activations"
    elif not cases:
        lacks = "discriminating cases"
    elif all(one.seat != seat for one in tried):
        lacks = "repeated runs and layouts"
    elif not together:
        lacks = "channels and near misses"
    else:
        return None
    return Refusal(GATE, "unjudged", f"seat {seat} was compared on no {lacks}", at=seat)


def _numbers(metrics: Sequence[SeamMetrics], wanted: SeatTerms) -> Refusal | None:
    """Refuse the seat by the word that explains most, over all its cases and outputs."""
    faults = [(word, one) for one in metrics if (word := _fault(one, wanted))]
    if not faults:
        return None
    word, worst = min(faults, key=lambda found: seam.SEVERITY.index(found[0]))
    measured = tuple(number for _, one in faults for number in _over(one, wanted))
    where = f"seat {worst.seat}, {worst.case}, output {worst.output}"
    said = "; ".join(f"{n.metric} {n.value:.6g} (needs {n.op} {n.required:g})" for n in _over(worst, wanted))
    detail = {
        "shape": f"{where}: {worst.mismatch}",
        "nan": f"{where}: NaN or Inf where the reference is finite",
        "zeros": f"{where}: the output is zero or near: {said}",
    }.get(word, f"{where}: {said}")
    return Refusal(
        GATE, word, f"{detail} ({len(faults)} of {len(metrics)} comparisons)", at=worst.seat, measured=measured
    )


def _fault(one: SeamMetrics, wanted: SeatTerms) -> str:
    word = seam.fault(one, wanted.scheme)
    return word or ("limit" if _structure_breaches(one, wanted.structure) else "")


def _structure_breaches(one: SeamMetrics, limits: Iterable[Limit]) -> list[Measured]:
    """Return the structure's limits that a real input breaches; cases are held to the scheme alone."""
    found: list[Measured] = []
    for limit in limits if one.case == REAL else ():
        if limit.metric == conduct.REPEAT:
            continue
        value = getattr(one, limit.metric, None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecError(
                f"structure limits {limit.metric!r}, which no seam measures", hint="name a SeamMetrics field"
            )
        if not meets(value, limit.op, limit.value):
            found.append(Measured(limit.metric, value, limit.op, limit.value, one.elements, at=_place(one)))
    return found


def _place(one: SeamMetrics) -> str:
    return f"{one.seat}|{one.case}#{one.output}"


def _measured(name: str, one: SeamMetrics, limits: SeamLimits) -> Measured:
    value, top = seam.numbers(one, limits)[name], seam.ceilings(limits)[name]
    return Measured(f"seam.{name}", value, "<=", top, one.elements, at=_place(one))


def _over(one: SeamMetrics, wanted: SeatTerms) -> list[Measured]:
    broken = [_measured(name, one, wanted.scheme) for name in seam.breaches(one, wanted.scheme)]
    return broken + _structure_breaches(one, wanted.structure)


def _noise(by_seat: Mapping[str, Sequence[SeamMetrics]], survivors: Sequence[str]) -> tuple[Measured, ...]:
    """Return the lowest signal to quantisation noise on real rows: stated, and decides nothing."""
    real = [one for seat in survivors for one in by_seat[seat] if one.case == REAL and one.elements]
    if not real:
        return ()
    worst = min(real, key=seam.sqnr)
    decibels = seam.sqnr(worst)
    return (Measured("seam.sqnr_db", decibels, conduct.REPORTED, decibels, worst.elements, at=_place(worst)),)


def _closeness(number: Measured) -> float:
    """Return how much of its limit a number uses up."""
    if number.required > 0:
        return number.value / number.required
    return 0.0 if number.value == 0 else math.inf


def _worst(
    by_seat: Mapping[str, Sequence[SeamMetrics]], terms: Terms, survivors: Sequence[str]
) -> tuple[Measured, ...]:
    """Return each seam number where it is nearest its limit, over all surviving seats."""
    pairs = [(one, terms.seats[seat].scheme) for seat in survivors for one in by_seat[seat]]
    if not pairs:
        return ()
    return tuple(max((_measured(name, *pair) for pair in pairs), key=_closeness) for name in seam.REASONS)
