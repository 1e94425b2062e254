"""One run inside pytest: plans, has each item judged, collects what items tell, states and reports at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import pytest

from pytest_frt.contracts.verdict import NotRun, Outcome, Verdict
from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import FrtError
from pytest_frt.registry import Registry
from pytest_frt.report import benchmarks, header, intended, lines, properties, summary, waived
from pytest_frt.report.beside import Beside
from pytest_frt.report.collected import Collected, waived_by
from pytest_frt.report.ending import Ending, check_room, end
from pytest_frt.report.progress import TerminalProgress
from pytest_frt.report.told import Fault, Told, fails, status
from pytest_frt.run.fraction import split
from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan
from pytest_frt.run.results import GateResult, UnionResult
from pytest_frt.selection import Wanted, wanted
from pytest_frt.settings import Settings
from pytest_frt.spec import codec
from pytest_frt.waivers import Waiver, find

if TYPE_CHECKING:
    from pytest_frt.hookspecs import Judge
    from pytest_frt.run.config import RunConfig

MARKER: Final = "frt_gate"
UNION: Final = "union"
SUBJECT: Final = pytest.StashKey[str]()
TOLD: Final = pytest.StashKey[Told]()
WAIVER: Final = pytest.StashKey[Waiver]()
UNFINISHED: Final = {pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR}
"""Exit states of pytest in which a run came to no end worth stating."""
PLACEHOLDER: Final = "[NOTSET]"
"""What pytest calls the item of a function that is parametrised over nothing."""
KEPT: Final = "frt_kept"
"""Where a controller of pytest-xdist tells its workers which records an earlier run left."""
NOTHING: Final = 6
"""Exit code of a run that certified nothing and failed nothing."""
R = TypeVar("R", GateResult, UnionResult)


@dataclass
class Session:
    """The run's plugin object.

    Attributes:
        config: pytest's configuration.
        asked: What was asked for.
        plan: What will be judged.
        beside: Waivers, and an earlier report.
        collected: What items told; filled in the controller from test reports.
        ending: What the controller wrote; None until then.
    """

    config: pytest.Config
    asked: Wanted
    plan: RunPlan
    beside: Beside = field(default_factory=Beside)
    collected: Collected = field(default_factory=Collected)
    ending: Ending | None = None
    _judge: Judge | None = None
    _progress: TerminalProgress | None = None
    _stopped: dict[object, Fault] = field(default_factory=dict)

    @classmethod
    def begin(cls, config: pytest.Config) -> Session:
        """Read options and registry and plan the run.

        Raises:
            FrtError: a typo, an absent extra, a filter that matches nothing.
        """
        is_worker = hasattr(config, "workerinput")
        settings = Settings(config)
        if settings.get("dry_run"):
            config.option.collectonly = True
        asked = wanted(settings, Registry.load(), machine_facts(), is_worker=is_worker)
        plan = config.hook.pytest_frt_plan(config=config, settings=asked.settings, registry=asked.registry)
        plan = split(replace(plan, gates=asked.gates), asked.settings.fraction)
        if asked.settings.resume:
            from pytest_frt.run.resume import resume

            told: Sequence[str] | None = vars(config)["workerinput"][KEPT] if is_worker else None
            plan = resume(plan, asked.settings, asked.registry, only=told)
        made = cls(config, asked, plan, Beside.of(asked.settings, plan.emulated))
        made.collected.waivers, made.collected.emulated = made.beside.holding, plan.emulated
        made.collected.kept = {one.plan.id: one.certificate.payload_sha256 for one in plan.kept}
        return made

    @property
    def settings(self) -> RunConfig:
        """The run's settings."""
        return self.asked.settings

    @property
    def rerun(self) -> lines.Rerun:
        """Knows how to run one record of this run again."""
        return lines.Rerun(self.settings, self.asked.folders)

    @property
    def judge(self) -> Judge:
        """The judge of this process, started when first needed.

        Raises:
            StorageFault: the output directory has no room: found before anything is measured.
        """
        if self._judge is None:
            check_room(Path(self.settings.out))
            self._progress = TerminalProgress.of(self.config)
            judge: Judge = self.config.hook.pytest_frt_judge(
                config=self.config,
                settings=self.settings,
                registry=self.asked.registry,
                plan=self.plan,
                progress=self._progress,
            )
            self._judge = judge
        return self._judge

    def judge_gate(self, item: pytest.Item, record: RecordPlan, gate: str) -> None:
        """Judge one gate of one record as one pytest item."""
        item.stash[SUBJECT] = record.id
        if stopped := self._stopped.get(record.host) or self._stopped.get(record.id):
            because = f"stopped by {stopped.code}: {stopped.message.splitlines()[0]}"
            self._tell(item, Told(record.id, gate, result=GateResult(record.id, gate, NotRun(gate, because))))
            return
        found = self._asked(lambda: self.judge.judge(record, gate))
        if isinstance(found, Fault):
            # The first gate is about the host: what stops it stops every record of that host.
            self._stopped[record.host if gate == "null_control" else record.id] = found
            self._fail(
                item, Told(record.id, gate, fault=found), f"{found.message}\n  rerun: {self.rerun.record(record)}"
            )
        self._tell(item, Told(record.id, gate, result=found))
        if fails(found.verdict) and not self._waive(item, record.id, gate):
            pytest.fail(lines.failure(found, self.rerun.record(record)), pytrace=False)
        if found.unkept:
            pytest.fail(f"{found.unkept}\n  rerun: {self.rerun.record(record)}", pytrace=False)
        self._hold(item, record.id, found.verdict, self.rerun.record(record))

    def judge_union(self, item: pytest.Item, union: UnionPlan) -> None:
        """Judge one union as one pytest item."""
        item.stash[SUBJECT] = union.name
        if any(record.host in self._stopped for record in union.records):
            self._tell(
                item, Told(union.name, UNION, union=UnionResult(union.name, NotRun(UNION, "its host was stopped")))
            )
            return
        found = self._asked(lambda: self.judge.union(union))
        if isinstance(found, Fault):
            self._fail(
                item, Told(union.name, UNION, fault=found), f"{found.message}\n  rerun: {self.rerun.union(union)}"
            )
        self._tell(item, Told(union.name, UNION, union=found))
        if fails(found.verdict) and not self._waive(item, union.name, UNION):
            pytest.fail(lines.union_failure(found, self.rerun.union(union)), pytrace=False)
        self._hold(item, union.name, found.verdict, self.rerun.union(union))

    def _hold(self, item: pytest.Item, subject: str, verdict: Verdict, command: str) -> None:
        """Fail an item that got worse since an earlier run, where that was asked for."""
        if WAIVER not in item.stash and (worse := self.beside.worse(subject, verdict)):
            told = [f"WORSE [{one.rule}] {one.text}" for one in worse]
            pytest.fail("\n".join([*told, f"  rerun: {command}"]), pytrace=False)

    def _waive(self, item: pytest.Item, subject: str, gate: str) -> bool:
        """Give a failing item its waiver, if there is one: it then neither fails nor passes."""
        waiver = find(self.collected.waivers, subject, gate)
        if waiver is None:
            return False
        item.stash[WAIVER] = waiver
        said = dict(item.user_properties)
        failed = {"frt_waived": said["frt_outcome"], "frt_waiver": waived_by(waiver)}
        item.user_properties[:] = (said | {"frt_outcome": Outcome.WAIVED.value} | failed).items()
        return True

    def _asked(self, ask: Callable[[], R]) -> R | Fault:
        """Return a result, or the fault that came in its place: pytest would show a fault as the end of a chain."""
        try:
            return ask()
        except FrtError as error:
            return Fault.of(error)
        finally:
            if self._progress is not None:
                self._progress.clear()

    def _tell(self, item: pytest.Item, told: Told) -> None:
        item.stash[TOLD] = told
        item.user_properties += properties.of(told, self.collected.emulated.get(told.subject, "")).items()

    def _fail(self, item: pytest.Item, told: Told, text: str) -> NoReturn:
        self._tell(item, told)
        pytest.fail(text, pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the report carry what the item told, through pytest-xdist too."""
        report = yield
        if (subject := item.stash.get(SUBJECT, None)) is not None:
            carried = {"frt_subject": subject}
            told = item.stash.get(TOLD, None) if report.when == "call" else None
            if told is not None:
                said = Outcome.WAIVED.value if WAIVER in item.stash else status(told, self.collected.emulated)
                carried |= {"frt_told": codec.dumps(told), "frt_word": said}
            vars(report).update(carried)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what an item told. In a worker of pytest-xdist nothing is read: the controller sees every report."""
        text, subject = getattr(report, "frt_told", None), getattr(report, "frt_subject", None)
        if subject is None or hasattr(self.config, "workerinput"):
            return
        if text is not None:
            flaw = f"reported as {report.outcome}" if report.outcome not in {"passed", "failed"} else ""
            flaw = flaw or ("expected to fail" if hasattr(report, "wasxfail") else "")
            told = codec.loads(Told, text)
            self.collected.add(told, flaw=flaw)
            benchmarks.feed(self.config, Path(self.settings.out), told.result)
        elif report.when != "call" and report.outcome != "passed":
            self.collected.taint(subject, f"{report.when} of an item {report.outcome}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, str | tuple[str, dict[str, bool]]] | None:
        """Give outcomes their own words; a finding is neither a pass nor a failure."""
        said = getattr(report, "frt_word", "")
        if not said or report.outcome == "skipped" or hasattr(report, "wasxfail"):
            return None
        if report.outcome == "failed":
            return "failed", "F", (said, {"red": True})
        return said, said[0].lower(), (said, {"yellow": True})

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take out the items of gates that were not asked for, and the placeholders that an empty plan leaves."""
        ours = [item for item in items if item.get_closest_marker(MARKER)]
        dropped = [item for item in ours if _gate(item) not in self.asked.gates]
        if dropped:
            self.config.hook.pytest_deselected(items=dropped)
        gone = {*dropped, *(item for item in ours if item.name.endswith(PLACEHOLDER))}
        items[:] = [item for item in items if item not in gone]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the workers; in the controller state, report and set the exit code."""
        if self._judge is not None:
            self._judge.close()
        if hasattr(self.config, "workerinput") or exitstatus in UNFINISHED:
            return
        if not self.config.option.collectonly:
            world = waived.World(self.plan, self.asked.registry, self.collected)
            self.ending = end(self.collected, self.settings, self.plan, self.rerun, self.beside, world)
        if exitstatus != pytest.ExitCode.INTERRUPTED:
            session.exitstatus = self._exit_status(exitstatus)

    def _exit_status(self, exitstatus: int) -> int:
        """Return our exit code; a failure of an item that told nothing, ours or foreign, stays a failure."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.plan.records:
            return 0 if self.plan.kept else NOTHING
        if self.ending is None or not self.collected.spoken:
            return exitstatus
        code = self.ending.exit_code
        return exitstatus if exitstatus == pytest.ExitCode.TESTS_FAILED and code in {0, NOTHING} else code

    def pytest_report_header(self) -> list[str]:
        """Say what is judged, with what, on what."""
        return header.header(self.settings, self.asked.registry, self.plan, verbose=self.config.option.verbose > 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of records, the plans and the files."""
        found = summary.Summary(self.collected, self.settings, self.plan, self.ending, self.config.option.verbose > 0)
        more = intended.lines(self.plan, self.settings, self.asked.gates, self.collected.waivers)
        width: int = terminalreporter._tw.fullwidth  # noqa: SLF001 (pytest has no public width)
        texts = list(found.lines(width))
        texts += (
            [part for line in more for part in lines.wrapped(line, width)] if self.config.option.collectonly else []
        )
        if texts:
            terminalreporter.section("certification")
            for text in texts:
                terminalreporter.write_line(text)

    def pytest_unconfigure(self) -> None:
        """End the workers of a run that was cut short."""
        if self._judge is not None:
            self._judge.close()


def _gate(item: pytest.Item) -> str:
    marker = item.get_closest_marker(MARKER)
    return str(marker.args[0]) if marker else ""
