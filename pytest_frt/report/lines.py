"""Single lines for people: why an item failed and how to run exactly that again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_frt.contracts.verdict import Crashed, Invalid, Refusal

if TYPE_CHECKING:
    from pytest_frt.contracts.verdict import Verdict
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan
    from pytest_frt.run.results import GateResult, UnionResult


def reason(verdict: Verdict) -> str:
    """Return gate, word and sentence of a verdict that does not hold."""
    match verdict:
        case Refusal(gate=gate, reason=word, detail=detail):
            return f"REFUSED {gate} {word}: {detail}"
        case Invalid(gate=gate, guard=guard, detail=detail):
            return f"INVALID_RUN {gate} {guard}: {detail}"
        case Crashed(gate=gate, kind=kind, detail=detail):
            return f"{kind} {gate}: {detail}"
        case _:
            return type(verdict).__name__


def rerun(record: RecordPlan, settings: RunConfig) -> str:
    """Return the command that judges exactly this record again."""
    key, cell = record.key, record.key.cell
    parts = [
        "pytest",
        f"--frt-host={cell.host}",
        f"--frt-structure={cell.structure}",
        f"--frt-impl={cell.impl}",
        f"--frt-scheme={cell.scheme}",
        f"--frt-device={cell.device}",
        f"--frt-phase={key.phase}",
        f"--frt-form={key.form}",
        f"--frt-size={key.size}",
        f"--frt-seed={settings.seed}",
    ]
    parts += [f"--frt-checkpoint={settings.checkpoint}"] if settings.checkpoint else []
    parts += [f"--frt-kernel={settings.kernel}"] if settings.kernel else []
    return " ".join(parts)


def failure(result: GateResult, record: RecordPlan, settings: RunConfig) -> str:
    """Return the text of a failed item."""
    out = [reason(result.verdict)]
    out += [f"  seat {refusal.at}: {refusal.reason}: {refusal.detail}" for refusal in result.refused[:3]]
    if len(result.refused) > len(out[1:]):
        out.append(f"  and {len(result.refused) - len(out[1:])} more seats")
    return "\n".join([*out, f"  rerun: {rerun(record, settings)}"])


def union_failure(result: UnionResult) -> str:
    """Return the text of a failed union."""
    dropped = [f"  dropped {name}: {why}" for name, why in result.dropped.items()]
    return "\n".join([f"{result.union}: {reason(result.verdict)}", *dropped])
