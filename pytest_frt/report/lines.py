"""Single lines for people: why an item failed, and how to run exactly that again."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_frt.contracts.verdict import Crashed, Inconclusive, Invalid, Measured, NotRun, Pass, Refusal, Verdict
from pytest_frt.run.config import RunConfig
from pytest_frt.run.plan import RecordPlan, UnionPlan
from pytest_frt.run.results import GateResult, UnionResult

SHOWN = 3
"""Seats and numbers that a failure spells out; the JSON report holds all."""

INDENT = "    "


def wrapped(text: str, width: int, *, first: str = "") -> list[str]:
    """Break a text into lines, later ones indented; ids and paths stay whole, since people copy them."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )


def reason(verdict: Verdict) -> str:
    """Return word, gate, stable reason and sentence of a verdict that does not hold."""
    match verdict:
        case Refusal(gate=gate, reason=word, detail=detail):
            return f"REFUSED {gate} {word}: {detail}"
        case Invalid(gate=gate, guard=guard, detail=detail):
            return f"INVALID_RUN {gate} {guard}: {detail}"
        case Crashed(gate=gate, kind=kind, detail=detail):
            return f"{kind} {gate}: {detail}"
        case Inconclusive(gate=gate, detail=detail):
            return f"INCONCLUSIVE {gate}: {detail}"
        case NotRun(gate=gate, because=because):
            return f"NOT_RUN {gate}: {because}"
        case Pass(gate=gate, band=band):
            return f"PASSED {gate} ({band})"


def number(one: Measured) -> str:
    """Return one number with its limit and place."""
    at = f" at {one.at}" if one.at else ""
    return f"{one.metric} {one.value:.6g}, needs {one.op} {one.required:g}{at} (n={one.n})"


@dataclass(frozen=True, slots=True)
class Rerun:
    """Knows how to run one record or union of this run again.

    Attributes:
        settings: The run's settings.
        folders: Host name to the folder that was given for it.
    """

    settings: RunConfig
    folders: Mapping[str, Path] = field(default_factory=dict)

    def record(self, record: RecordPlan) -> str:
        """Return the command that judges exactly one record again."""
        cell = record.key.cell
        return self._command([record], structure=cell.structure, impl=cell.impl, scheme=cell.scheme)

    def union(self, union: UnionPlan) -> str:
        """Return the command that judges the records of one union and their union again."""
        cells = [record.key.cell for record in union.records]
        return self._command(
            union.records,
            structure=_joined(cell.structure for cell in cells),
            impl=_joined(cell.impl for cell in cells),
            scheme=_joined(cell.scheme for cell in cells),
        )

    def _command(self, records: Iterator[RecordPlan] | tuple[RecordPlan, ...] | list[RecordPlan], **names: str) -> str:
        first = next(iter(records))
        key, settings = first.key, self.settings
        options = {
            "host": str(self.folders.get(key.cell.host, key.cell.host)),
            **names,
            "device": key.cell.device,
            "phase": key.phase,
            "form": key.form,
            "size": key.size,
            "seed": str(settings.seed),
            "threads": str(settings.threads),
            "checkpoint": settings.checkpoint,
            "kernel": ",".join(word.word for word in settings.kernel),
        }
        words = [f"--frt-{name}={value}" for name, value in options.items() if value]
        words += ["--frt-quick"] if settings.quick else []
        words += [] if settings.timing else ["--frt-no-timing"]
        return shlex.join(["pytest", *words])


def _joined(names: Iterator[str]) -> str:
    return ",".join(dict.fromkeys(names))


def failure(result: GateResult, command: str) -> str:
    """Return the text of a failed item: reason, numbers, seats, and the command that runs it again."""
    measured = getattr(result.verdict, "measured", ())
    out = [reason(result.verdict), *(f"  {number(one)}" for one in measured[:SHOWN])]
    out += [f"  seat {refusal.at}: {refusal.reason}: {refusal.detail}" for refusal in result.refused[:SHOWN]]
    if (more := len(result.refused) - SHOWN) > 0:
        out.append(f"  and {more} more seats")
    return "\n".join([*out, f"  rerun: {command}"])


def union_failure(result: UnionResult, command: str) -> str:
    """Return the text of a failed union."""
    dropped = [f"  left out {name}: {why}" for name, why in result.dropped.items()]
    return "\n".join([f"{reason(result.verdict)} ({result.union})", *dropped, f"  rerun: {command}"])
