"""The summary of a run: records, cells this machine cannot serve, plans, comparisons, counts and files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_frt.contracts.verdict import NotRun, Outcome, Pass
from pytest_frt.expand import NotSupported
from pytest_frt.report import away, table
from pytest_frt.report.collected import Collected
from pytest_frt.report.ending import Ending
from pytest_frt.report.lines import INDENT, reason, wrapped
from pytest_frt.report.totals import Totals
from pytest_frt.run.config import RunConfig
from pytest_frt.run.emulation import LABEL
from pytest_frt.run.plan import RunPlan
from pytest_frt.run.results import UnionResult

SHOWN = 8
"""Unsupported cells named per reason; verbose output and the JSON report name all."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything the summary is made of.

    Attributes:
        collected: What items told.
        settings: The run's settings.
        plan: What was to be judged.
        ending: What was written; None when the run only collected, or broke.
        verbose: Show origins of settings and every unsupported cell.
    """

    collected: Collected
    settings: RunConfig
    plan: RunPlan
    ending: Ending | None
    verbose: bool = False

    def lines(self, width: int) -> Iterator[str]:
        """Yield the lines for a terminal of ``width`` columns."""
        yield from table.render(table.rows(self.collected), width)
        yield from self._kept(width)
        yield from self._unsupported(width)
        for text in away.lines(self.plan, self.settings, verbose=self.verbose):
            yield from wrapped(text, width)
        for text in (*self._plans(), *self._waivers(), *self._compared(), *self._origins(), *self._notes()):
            yield from wrapped(text, width)
        yield from self._files()
        if self.ending is not None:
            yield from self._counts()

    def _kept(self, width: int) -> Iterator[str]:
        found = self.plan.resumed
        if found is None:
            return
        for one in found.kept:
            yield f"{Outcome.CERTIFIED.value} (kept) {one.plan.id}"
            yield from wrapped(f"from {one.source}, until {one.certificate.expires_at:%Y-%m-%d}", width, first=INDENT)
        yield from (f"PLAN (kept) {one.name} from {one.source}" for one in found.plans)
        for record, why in (found.again or {}).items():
            yield from wrapped(f"judged again: {record}: {why}", width)

    def _unsupported(self, width: int) -> Iterator[str]:
        by_reason: dict[str, list[NotSupported]] = {}
        for row in self.plan.not_supported:
            by_reason.setdefault(row.reason, []).append(row)
        for why, cells in by_reason.items():
            shown = cells if self.verbose else cells[:SHOWN]
            yield from (f"{Outcome.NOT_SUPPORTED.value} {row.cell.id}" for row in shown)
            if more := len(cells) - len(shown):
                yield f"{Outcome.NOT_SUPPORTED.value} and {more} more cells (-v names them)"
            yield from wrapped(why, width, first=INDENT)

    def _plans(self) -> Iterator[str]:
        for name, result in self.collected.unions.items():
            united = self.collected.united(name)
            if united.outcome is Outcome.CERTIFIED:
                yield from _plan(name, result)
            elif isinstance(result.verdict, Pass):
                yield f"NO PLAN {name}: {united.detail}"
            elif not isinstance(result.verdict, NotRun):
                yield f"NO PLAN {name}: {reason(result.verdict)}"
            yield from (f"  left out {record}: {why}" for record, why in result.dropped.items())
            found = {one.metric: one.value for one in result.comparison}
            if middle := found.get("compiled_host.median"):
                low, high = found["compiled_host.lowest"], found["compiled_host.highest"]
                yield (
                    f"  comparison, one process, no certificate: {middle:.3f}x of the compiled host "
                    f"(pairs from {low:.3f} to {high:.3f})"
                )

    def _waivers(self) -> Iterator[str]:
        for one in self.ending.waivers if self.ending else ():
            if one.fault is None and (self.verbose or one.subjects):
                yield f"waiver of {one.waiver.owner} until {one.waiver.expires} {one.state.value}: {one.detail}"

    def _compared(self) -> Iterator[str]:
        found = self.ending.compared if self.ending else None
        if found is not None:
            yield from (f"WORSE {one.subject} [{one.rule}] {one.text}" for one in found.changes)
            yield f"compared with {found.source}: {found.common} in both, {len(found.changes)} worse"
            yield from (found.note,) if found.note else ()

    def _origins(self) -> Iterator[str]:
        if self.verbose:
            by_origin: dict[str, list[str]] = {}
            for key, origin in self.settings.origins.items():
                by_origin.setdefault(origin, []).append(key)
            yield from (f"settings from {origin}: {', '.join(keys)}" for origin, keys in by_origin.items())

    def _files(self) -> Iterator[str]:
        if self.ending is None:
            return
        if self.ending.files and not self.ending.keyid:
            yield "unsigned statements, which nothing activates; sign them: frt sign --key KEY STATEMENT..."
        for path in self.ending.files.values():
            yield f"{'signed' if self.ending.keyid else 'unsigned'} {path}"
        if self.ending.keyid:
            yield f"signed by {self.ending.keyid}"

    def _notes(self) -> Iterator[str]:
        if self.ending is not None:
            yield from (line for note in self.ending.notes for line in note.splitlines())

    def _counts(self) -> Iterator[str]:
        found = Totals.of(self.collected, self.plan)
        yield (
            f"{found.certified} certified of {found.asked} asked for and {found.supported} supported here; "
            f"{found.judged} judged, {found.correct} correct{f', {found.waived} waived' if found.waived else ''}"
            f"{f', {len(self.plan.kept)} kept from an earlier run' if self.plan.kept else ''}"
        )
        if found.emulated:
            yield (
                f"{found.emulated} more {LABEL}, {found.emulated_correct} correct there: "
                "nothing is timed or certified in emulation"
            )
        if self.settings.quick:
            yield "quick form: provisional, nothing is certified"
        elif not self.settings.timing:
            yield "timing was switched off: nothing is certified"


def _plan(name: str, result: UnionResult) -> Iterator[str]:
    seats = sum(len(member.seats) for member in result.members)
    speed = table.ratio(result.verdict)
    told = "judged alone" if speed == "-" else speed
    yield f"PLAN {name}: {len(result.members)} records, {seats} seats together, {told}"
    yield from (f"  {member.record} {member.speed:.3f}x alone" for member in result.members)
