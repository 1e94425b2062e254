"""What judging one gate of one record produced: small, JSON-able, and safe to send from an xdist worker to the controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from pytest_frt.contracts.record import PlanRecord, Record
from pytest_frt.contracts.verdict import Measured, Refusal, SeatVerdicts, Verdict

GATE_ORDER = ("null_control", "seats", "parity", "ledger", "contract", "net_win")
"""Gates of one record in the order they decide; ``union`` judges several records together."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate of one record.

    Attributes:
        record: Record key id.
        gate: Gate name.
        verdict: What the gate said.
        survivors: Seat ids still in after this gate.
        refused: Seats this gate took out, with reasons; the others go on.
        seconds: Wall time this gate's own evidence took.
        record_facts: The proven record, set by the last gate only when every gate passed.
        comparison: One-process comparison lines for people, never part of a certificate.
    """

    record: str
    gate: str
    verdict: Verdict
    survivors: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    seconds: float = 0.0
    record_facts: Record | None = None
    comparison: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class UnionResult:
    """Records that passed alone, attached together and judged again.

    Attributes:
        union: Union name.
        verdict: What the union's last try said.
        members: Record key ids of the certified set.
        dropped: Record key id to reason.
        plan: Set only when the verdict passed; ``members`` of the plan are filled with payload digests by the controller.
        comparison: One-process comparison lines for people.
    """

    union: str
    verdict: Verdict
    members: tuple[str, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)
    plan: PlanRecord | None = None
    comparison: tuple[Measured, ...] = ()
    seconds: float = 0.0
