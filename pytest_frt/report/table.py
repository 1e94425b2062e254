"""The table a person believes: one row per record, worst margin first, reasons in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from pytest_frt.contracts.verdict import NotRun, Outcome, Pass
from pytest_frt.report.lines import reason
from pytest_frt.rules import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_frt.contracts.verdict import Measured, Verdict
    from pytest_frt.report.collected import Collected
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RunPlan
    from pytest_frt.run.results import GateResult

HEADLINES = ("host.top1.median", "host.cosine.median", "host.top1.worst", "host.cosine.worst", "seam.rel_l2")
WIDTHS = [None, None, None, None, None, 46]


def _measured(verdict: Verdict | None) -> dict[str, Measured]:
    return {one.metric: one for one in getattr(verdict, "measured", ())} if verdict else {}


def _parity(result: GateResult | None) -> str:
    if result is None or isinstance(result.verdict, NotRun):
        return "-"
    found = _measured(result.verdict)
    for name in HEADLINES:
        if name in found:
            one = found[name]
            return f"{name.removeprefix('host.').removeprefix('seam.')} {one.value:.5g} ({one.op} {one.required:g})"
    return "-"


def _ratio(verdict: Verdict | None) -> str:
    found = _measured(verdict)
    if "pooled_median" not in found:
        return "-"
    low, high = found.get("interval_low"), found.get("interval_high")
    span = f" [{low.value:.3f}, {high.value:.3f}]" if low and high else ""
    return f"{found['pooled_median'].value:.3f}x{span}"


def _ledger(result: GateResult | None) -> str:
    found = _measured(result.verdict) if result else {}
    return f"{found['served'].value:.0f}/{found['served'].required:.0f}" if "served" in found else "-"


def _speed(gates: dict[str, GateResult]) -> float:
    found = _measured(gates["net_win"].verdict) if "net_win" in gates else {}
    return found["pooled_median"].value if "pooled_median" in found else 0.0


def _rows(collected: Collected) -> Iterator[list[str]]:
    order = list(Outcome)
    ranked = sorted(collected.gates.items(), key=lambda item: (-order.index(collected.folded(item[0]).outcome), _speed(item[1])))
    for record, gates in ranked:
        found = collected.folded(record)
        cell, _, tail = record.partition("@")
        structure, impl, host, scheme, device = cell.split("-")
        win = gates.get("net_win")
        seats = len(gates["net_win"].survivors) if win else 0
        yield [
            found.outcome.value,
            f"{structure}\n{impl} {scheme}\n{host} {device}\n{tail}",
            _parity(gates.get("parity")),
            f"{_ledger(gates.get('ledger'))}\n{seats} seats",
            _ratio(win.verdict if win else None),
            f"{found.gate}: {found.detail}" if found.gate else "",
        ]


def _plans(collected: Collected) -> Iterator[str]:
    for name, result in collected.unions.items():
        if isinstance(result.verdict, Pass):
            seats = sum(len(member.seats) for member in result.members)
            yield f"PLAN {name}: {len(result.members)} records, {seats} seats together, {_ratio(result.verdict) if result.verdict.measured else 'judged alone'}"
            yield from (f"  {member.record}  {member.speed:.3f}x alone" for member in result.members)
        elif not isinstance(result.verdict, NotRun):
            yield f"NO PLAN {name}: {reason(result.verdict)}"
        yield from (f"  left out {record}: {why}" for record, why in result.dropped.items())
        found = {one.metric: one for one in result.comparison}
        if "compiled_host.median" in found:
            low, high = found["compiled_host.lowest"].value, found["compiled_host.highest"].value
            yield (
                f"  comparison, one process, no certificate: {found['compiled_host.median'].value:.3f}x "
                f"of the compiled host (pairs from {low:.3f} to {high:.3f})"
            )


def summary(collected: Collected, settings: RunConfig, plan: RunPlan) -> Iterator[str]:
    """Yield the lines of the summary."""
    yield ""
    heads = ["outcome", "record", "parity", "ledger", "net win [99 %]", "why"]
    if collected.gates:
        yield from tabulate(list(_rows(collected)), heads, tablefmt="simple", maxcolwidths=WIDTHS).splitlines()
    for row in plan.not_supported:
        yield f"{Outcome.NOT_SUPPORTED.value} {row.cell.id}: {row.reason}"
    yield from _plans(collected)
    outcomes = [collected.folded(record) for record in collected.gates]
    good = sum(one.outcome is Outcome.CERTIFIED for one in outcomes)
    correct = sum(one.correct for one in outcomes)
    everything = len(outcomes) + len(plan.not_supported)
    yield f"{good} certified of {len(outcomes)} judged ({everything} asked for), {correct} correct"
    if settings.quick:
        yield "quick form: provisional, nothing is certified"
    if collected.sealed:
        kind = f"signed by {collected.sealed.keyid}" if collected.sealed.keyid else "unsigned: frt sign --key KEY FILE"
        yield from (f"wrote {path} ({kind})" for path in collected.sealed.files.values())
    yield from collected.notes
