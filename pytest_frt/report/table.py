"""One row per record, worst margin first: as a table where it fits, else as a block of short lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from pytest_frt.contracts.verdict import NotRun, Outcome, Verdict
from pytest_frt.report.collected import Collected
from pytest_frt.report.lines import INDENT, wrapped
from pytest_frt.report.margins import headroom, measured, named, tightest
from pytest_frt.run.emulation import LABEL, label
from pytest_frt.run.results import GateResult

HEADS = ("outcome", "record", "parity", "ledger", "net win [99 %]", "why")
FIXED_COLUMNS = 92
"""Columns of a table without its last, at the longest names and numbers that are usual."""
WHY_COLUMNS = 30
"""Columns that reasons in words need at least; a terminal without them gets blocks of lines."""
SEVERITY = (
    Outcome.REFUSED,
    Outcome.CRASH,
    Outcome.TIMEOUT,
    Outcome.INVALID_RUN,
    Outcome.WAIVED,
    Outcome.NOT_RUN,
    Outcome.NOT_SUPPORTED,
    Outcome.INCONCLUSIVE,
    Outcome.CORRECT_NOT_FASTER,
    Outcome.CERTIFIED,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One record, as a person reads it."""

    outcome: Outcome
    record: str
    parity: str
    ledger: str
    win: str
    why: str
    margin: float
    emulated: bool = False

    @property
    def rank(self) -> tuple[int, float, str]:
        """Severity first, then worst margin."""
        return SEVERITY.index(self.outcome), self.margin, self.record


def _parity(verdict: Verdict | None) -> str:
    one = tightest(measured(verdict))
    if one is None:
        return "-"
    name = one.metric.removeprefix("host.").removeprefix("seam.")
    return f"{name} {one.value:.4g} ({one.op} {one.required:g})"


def _ledger(result: GateResult | None) -> str:
    served = named(result.verdict, "served") if result else None
    return f"{served.value:.0f}/{served.required:.0f}" if served else "-"


def ratio(verdict: Verdict | None) -> str:
    """Return a speed-up with its 99 % interval."""
    pooled = named(verdict, "pooled_median")
    if pooled is None:
        return "-"
    low, high = named(verdict, "interval_low"), named(verdict, "interval_high")
    span = f" [{low.value:.3f}, {high.value:.3f}]" if low and high else ""
    return f"{pooled.value:.3f}x{span}"


def _why(collected: Collected, record: str) -> str:
    found, gates = collected.folded(record), collected.gates[record]
    reached = next((gates[name] for name in reversed(gates) if gates[name].survivors), None)
    seats = f"{len(reached.survivors)} seats" if reached else ""
    refused = sum(len(result.refused) for result in gates.values())
    seats += f", {refused} refused" if seats and refused else ""
    band = f"band {found.band}" if found.band != "pass" else ""
    said = f"{found.gate} {found.reason}: {' '.join(found.detail.split())}" if found.gate else ""
    correct = "correct" if found.correct and found.gate else ""
    worse = [f"WORSE: {text}" for text in collected.worse.get(record, ())]
    stood_in = label(collected.emulated[record]) if record in collected.emulated else ""
    return "; ".join(part for part in (*worse, stood_in, said, correct, band, seats) if part)


def rows(collected: Collected) -> list[Row]:
    """Return a row per record that any item spoke of, worst first."""
    out: list[Row] = []
    for record, gates in collected.gates.items():
        verdicts = {name: result.verdict for name, result in gates.items() if not isinstance(result.verdict, NotRun)}
        parity, win = verdicts.get("parity"), verdicts.get("net_win")
        low = named(win, "interval_low")
        nearest = [one for one in (tightest(measured(parity)), low) if one is not None]
        rooms = [room for one in nearest if (room := headroom(one)) is not None]
        out.append(
            Row(
                outcome=collected.folded(record).outcome,
                record=record,
                parity=_parity(parity),
                ledger=_ledger(gates.get("ledger")),
                win=ratio(win),
                why=_why(collected, record),
                margin=min(rooms, default=0.0),
                emulated=record in collected.emulated,
            )
        )
    return sorted(out, key=lambda row: row.rank)


def _cells(row: Row) -> list[str]:
    cell, _, tail = row.record.partition("@")
    structure, impl, host, scheme, device = cell.split("-")
    name = f"{structure}\n{impl} {scheme}\n{host} {device}\n@{tail}"
    outcome = f"{row.outcome.value}\n{LABEL}" if row.emulated else row.outcome.value
    return [outcome, name, row.parity.replace(" (", "\n("), row.ledger, row.win.replace(" [", "\n["), row.why]


def _block(row: Row, width: int) -> Iterator[str]:
    yield f"{row.outcome.value} {row.record}"
    numbers = (("parity", row.parity), ("ledger", row.ledger), ("net win", row.win))
    said = ", ".join(f"{name} {value}" for name, value in numbers if value != "-")
    for text in (said, row.why):
        yield from wrapped(text, width, first=INDENT)


def render(found: Sequence[Row], width: int) -> Iterator[str]:
    """Yield the lines of a table, or of blocks where a terminal of ``width`` columns is too narrow for one."""
    if width < FIXED_COLUMNS + WHY_COLUMNS:
        for row in found:
            yield from _block(row, width)
    elif found:
        widths = [None, None, None, None, None, width - FIXED_COLUMNS]
        yield from tabulate([_cells(row) for row in found], HEADS, tablefmt="simple", maxcolwidths=widths).splitlines()
