"""What a run is held against beside its gates: waivers, and an earlier report."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.contracts.verdict import Verdict
from pytest_frt.errors import RegressionFault, UsageFault
from pytest_frt.report import compare, waived
from pytest_frt.report.header import OWN_VERSION
from pytest_frt.waivers import Waiver, load

if TYPE_CHECKING:
    from pytest_frt.report.compare import Change, Earlier, Rule
    from pytest_frt.report.waived import Standing, World
    from pytest_frt.run.config import RunConfig

LAST: Final = "last"
LAST_REPORT: Final = "last-report.json"
"""Report that every run leaves in its output directory."""


@dataclass(frozen=True, slots=True)
class Compared:
    """This run beside an earlier one.

    Attributes:
        source: The earlier report.
        common: Records and unions that both judged.
        changes: What got worse.
        fails: Worse is a failure.
        note: What makes the comparison doubtful; empty for nothing.
    """

    source: str
    common: int
    changes: tuple[Change, ...]
    fails: bool
    note: str

    @property
    def fault(self) -> RegressionFault | None:
        """What the run fails with; None where it does not."""
        if not self.changes or not self.fails:
            return None
        broken = ", ".join(sorted({one.rule for one in self.changes}))
        hint = "mend it, or judge by another --frt-compare-fail"
        return RegressionFault(f"{len(self.changes)} worse than in {self.source}, by {broken}", hint=hint)

    def json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        worse = [{"subject": c.subject, "gate": c.gate, "rule": c.rule, "text": c.text} for c in self.changes]
        return {"source": self.source, "common": self.common, "worse": worse, "fails": self.fails, "note": self.note}


@dataclass(frozen=True, slots=True)
class Beside:
    """Read once, when a run begins.

    Attributes:
        waivers: Every entry of ``--frt-waivers``.
        earlier: The report of ``--frt-compare``; None without one.
        rules: What counts as worse.
        fails: Worse is a failure: ``--frt-compare-fail`` was given.
        note: What a person should know of either; empty for nothing.
        today: The day that waivers are held against.
    """

    waivers: tuple[Waiver, ...] = ()
    earlier: Earlier | None = None
    rules: tuple[Rule, ...] = compare.SHOWN
    fails: bool = False
    note: str = ""
    today: date = date.max

    @classmethod
    def of(cls, settings: RunConfig, emulated: Collection[str] = ()) -> Beside:
        """Read what the settings name.

        Args:
            settings: The run's settings.
            emulated: Ids of the records that are judged by a CPU in the place of their device: they are held against
                such as were judged so, too, and the others against the others.

        Raises:
            UsageFault: a file that cannot be read, an unknown rule, or rules with nothing to compare with.
            SpecError: a waiver that breaks its schema.
        """
        waivers = load(Path(settings.waivers)) if settings.waivers else ()
        rules = tuple(map(compare.parse, settings.compare_fail))
        if rules and not settings.compare:
            raise UsageFault("--frt-compare-fail has no report to compare with", hint="--frt-compare=FILE, or =last")
        last = Path(settings.out) / LAST_REPORT
        source = last if settings.compare == LAST else Path(settings.compare) if settings.compare else None
        earlier, note = None, ""
        if source is last and not last.is_file():
            note = f"nothing to compare with yet: {last} is the first report"
        elif source is not None:
            earlier = compare.like(compare.read(source), emulated)
        today = datetime.now(UTC).date()
        return cls(waivers, earlier, rules or compare.SHOWN, bool(rules), note, today)

    @property
    def holding(self) -> tuple[Waiver, ...]:
        """The waivers that are not over."""
        return tuple(one for one in self.waivers if not one.over(self.today, OWN_VERSION))

    def standings(self, world: World) -> tuple[Standing, ...]:
        """Return what became of each waiver."""
        return waived.standings(self.waivers, world, self.today, OWN_VERSION)

    def worse(self, subject: str, verdict: Verdict) -> tuple[Change, ...]:
        """Return what got worse at one gate by rules that fail; none where worse fails nothing."""
        before = self.earlier.seen.get(subject) if self.earlier and self.fails else None
        return compare.of_gate(before, subject, verdict, self.rules) if before else ()

    def compared(self, now: Earlier) -> Compared | None:
        """Return this run beside the earlier one; None without one."""
        if self.earlier is None:
            return None
        common = sum(name in self.earlier.seen for name in now.seen)
        changes = compare.compare(self.earlier, now, self.rules, whole=False)
        other = self.earlier.machine != now.machine
        note = f"machines differ: {self.earlier.machine} before, {now.machine} now" if other else ""
        return Compared(self.earlier.source, common, changes, self.fails, note)
