"""What judging one gate of one record produced: small, JSON-able, safe to send from a test worker to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_frt.contracts.record import FileDigest, PlanRecord, Record
from pytest_frt.contracts.verdict import Measured, Refusal, Verdict
from pytest_frt.run.shown import Shown


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate of one record. Folded over the gates of a record by ``rules.fold.fold``.

    Attributes:
        record: Record key id.
        gate: Gate name.
        verdict: What the gate said, the seats it refused already taken out.
        survivors: Seat ids still in after this gate.
        refused: Seats this gate took out, with reasons; the others go on.
        seconds: Wall time this gate's own evidence took.
        proven: The record, set by the last gate only when every gate passed.
        ratios: Unit ratios of a timed record, base over candidate by the worker's clock, one sequence per process.
        unkept: Why evidence could not be kept; ``proven`` is then None.
        evidence: Timed pairs on disk, by their path below the output directory; None for what was not timed.
        shown: What a report shows beside the verdict; None when the gate has nothing to add.
    """

    record: str
    gate: str
    verdict: Verdict
    survivors: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    seconds: float = 0.0
    proven: Record | None = None
    ratios: tuple[tuple[float, ...], ...] = ()
    unkept: str = ""
    shown: Shown | None = None
    evidence: FileDigest | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A record of a plan, as it was proven alone."""

    record: str
    seats: tuple[str, ...]
    speed: float


@dataclass(frozen=True, slots=True)
class UnionResult:
    """Records that passed alone, attached together and judged again.

    Attributes:
        union: Union name.
        verdict: What the union's last try said.
        members: The set of the last try.
        dropped: Record key id to reason, for records left out.
        proven: Set only when the verdict passed; its ``members`` are record key ids until the controller knows the
            payload digests.
        comparison: One-process comparisons for people, never part of a certificate.
        seconds: Wall time.
        ratios: Unit ratios of the last try, as in ``GateResult``; none when one member stands as it was timed alone.
    """

    union: str
    verdict: Verdict
    members: tuple[Member, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)
    proven: PlanRecord | None = None
    comparison: tuple[Measured, ...] = ()
    seconds: float = 0.0
    ratios: tuple[tuple[float, ...], ...] = ()
