"""What a report shows beside verdicts: seats against their limits, the clock's traces, the host's other layers.

Nothing is judged by these numbers again. They are small, JSON-able, and None stands where a number is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.seat import NotReplaced
from pytest_frt.contracts.structure import Limit
from pytest_frt.gates import parity_pooled
from pytest_frt.measure import timing as measure
from pytest_frt.rules import pooled, seam
from pytest_frt.rules.thresholds import ALTERNATIVE_SHARE

if TYPE_CHECKING:
    from pytest_frt.contracts.evidence import SeamMetrics, WitnessEvidence
    from pytest_frt.contracts.job import UnitRef
    from pytest_frt.contracts.pooled import PooledMetrics
    from pytest_frt.contracts.timing import ProcessTiming, TimingEvidence
    from pytest_frt.run.settle import Settled


@dataclass(frozen=True, slots=True)
class SeatNumber:
    """One number of one seat where it is nearest its ceiling, over real inputs, cases and outputs.

    Attributes:
        metric: Name in ``rules.seam`` or ``rules.pooled``.
        value: The number; None when it is not finite.
        limit: Its ceiling.
        at: ``case#output``.
        n: Elements compared.
    """

    metric: str
    value: float | None
    limit: float
    at: str
    n: int


@dataclass(frozen=True, slots=True)
class SeatShown:
    """The seam numbers of one seat that was tried last, whether it survived or not."""

    seat: str
    numbers: tuple[SeatNumber, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit that a scheme or a structure declares, where it is written and why."""

    name: str
    op: str
    value: float
    origin: str
    because: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What one timing process recorded, in the order of collection.

    Attributes:
        process: Index.
        canary: Canary ratio per unit: 1 when both arms ran on an equally fast machine.
        canary_s: Mean seconds of the canary per unit: the machine's own speed over time.
        null: Base-against-base ratio per null unit.
        base_s: Median seconds of the base arm.
        candidate_s: Median seconds of the candidate arm.
        steal: Stolen CPU seconds per second.
        pressure: Share of time some task waited for a CPU.
        cosine: Worst cosine of kept outputs.
    """

    process: int
    canary: tuple[float | None, ...]
    canary_s: tuple[float | None, ...]
    null: tuple[float | None, ...]
    base_s: float | None
    candidate_s: float | None
    steal: float | None
    pressure: float | None
    cosine: float | None


@dataclass(frozen=True, slots=True)
class Shown:
    """What one gate leaves for a report; each gate fills its own part.

    Attributes:
        not_replaced: Linears and norms of the host in no seat (null control).
        seats: Seam numbers per seat (parity).
        bounds: Limits that scheme and structure declare (parity).
        traces: Per timing process (net win).
        witness_s: Base medians of processes that never loaded the impl, seconds (net win).
    """

    not_replaced: tuple[NotReplaced, ...] = ()
    seats: tuple[SeatShown, ...] = ()
    bounds: tuple[Bound, ...] = ()
    traces: tuple[Trace, ...] = ()
    witness_s: tuple[float, ...] = ()


def of_host(evidence: WitnessEvidence) -> Shown:
    """Show what of a host is in no seat."""
    return Shown(not_replaced=evidence.not_replaced)


def of_seams(settled: Settled, unit: UnitRef, limits: Iterable[Limit]) -> Shown | None:
    """Show every seat of the last try against the limits it was held to; None when nothing was compared.

    Args:
        settled: Where the record came to rest.
        unit: The record's unit.
        limits: What its structure declares.
    """
    tried = settled.tried
    terms = tried.limits.get(unit.id) if tried else None
    if tried is None or terms is None:
        return None
    by_seat: dict[str, list[SeamMetrics]] = {}
    for one in tried.parity.seam:
        by_seat.setdefault(one.seat, []).append(one)
    together = pooled.by_seat(tried.parity.pooled, by_seat)
    seats = tuple(
        SeatShown(seat, (*_worst(found, terms), *_systematic(together[seat], terms))) for seat, found in by_seat.items()
    )
    return Shown(seats=seats, bounds=(*_scheme_bounds(unit, terms), *_structure_bounds(unit, limits)))


def of_timing(evidence: TimingEvidence) -> Shown:
    """Show the controls beside the timed units."""
    return Shown(traces=tuple(map(_trace, evidence.processes)), witness_s=evidence.witness_base_s)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _series(values: Iterable[float]) -> tuple[float | None, ...]:
    return tuple(map(_finite, values))


def _worst(found: Sequence[SeamMetrics], terms: SeamLimits) -> tuple[SeatNumber, ...]:
    top = seam.ceilings(terms)
    out = []
    for name, limit in top.items():
        values = [(seam.numbers(one, terms)[name], one) for one in found]
        value, at = max(values, key=lambda pair: (not math.isfinite(pair[0]), pair[0]))
        out.append(SeatNumber(name, _finite(value), limit, f"{at.case}#{at.output}", at.elements))
    return tuple(out)


def _systematic(found: Sequence[PooledMetrics], terms: SeamLimits) -> tuple[SeatNumber, ...]:
    out = []
    for name in parity_pooled.WORDS if found else ():  # what is untold has no limit to be drawn against
        values = [(pooled.numbers(one)[name], one) for one in found]
        value, at = max(values, key=lambda pair: (not math.isfinite(pair[0]), pair[0]))
        place = f"{pooled.place(at, name)}#{at.output}"
        out.append(SeatNumber(name, _finite(value), pooled.ceilings(at, terms)[name], place, at.rows))
    return tuple(out)


def _scheme_bounds(unit: UnitRef, terms: SeamLimits) -> tuple[Bound, ...]:
    origin = f"scheme {unit.scheme}"
    factors = {"reference_factor": terms.reference_factor, "reference_floor": terms.floor}
    ceilings = {name: top for name, top in seam.ceilings(terms).items() if name != "reference_ratio"}
    own = factors | ceilings | {"channel": terms.slope}
    half = ALTERNATIVE_SHARE
    return (
        *(Bound(f"seam.{name}", "<=", value, origin, terms.because) for name, value in own.items()),
        Bound("seam.alternative", "<=", half.value, "rule", half.because),
    )


def _structure_bounds(unit: UnitRef, limits: Iterable[Limit]) -> tuple[Bound, ...]:
    origin = f"structure {unit.structure}"
    return tuple(Bound(one.metric, one.op, one.value, origin, one.because) for one in limits)


def _trace(process: ProcessTiming) -> Trace:
    seconds = [
        fmean(sample.canary_s for pair in block for sample in (pair.base, pair.candidate)) for block in process.blocks
    ]
    return Trace(
        process=process.process,
        canary=_series(measure.units(process, measure.canary_clock)),
        canary_s=_series(seconds),
        null=_series(measure.null_units(process)),
        base_s=_finite(measure.base_median(process)),
        candidate_s=_finite(measure.candidate_median(process)),
        steal=_finite(process.steal_s / process.wall_s) if process.wall_s > 0 else None,
        pressure=_finite(process.pressure),
        cosine=_finite(process.output_mismatch),
    )
