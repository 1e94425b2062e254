"""One run inside pytest: plans, judges through the bench, collects what every item said, seals and reports at the end."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.contracts.verdict import Crashed, Invalid, Outcome, Pass, Refusal
from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import FrtError
from pytest_frt.options import run_config
from pytest_frt.registry import Registry
from pytest_frt.report import header, lines, table
from pytest_frt.report.collected import Collected
from pytest_frt.report.progress import TerminalProgress
from pytest_frt.rules.fold import FAILING_GATES, fold
from pytest_frt.run.plan import plan_run
from pytest_frt.run.results import GateResult, UnionResult
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from pytest_frt.contracts.verdict import Verdict
    from pytest_frt.run.bench import Bench
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan

GATE_PROPERTY = "frt_gate"
UNION_PROPERTY = "frt_union"
FAULT_PROPERTY = "frt_fault"


def fails(verdict: Verdict) -> bool:
    """Report whether a verdict fails its pytest item; not faster and inconclusive are findings, not failures."""
    if isinstance(verdict, Refusal):
        return verdict.gate in FAILING_GATES and fold([verdict], (verdict.gate,)).outcome is Outcome.REFUSED
    return isinstance(verdict, Crashed | Invalid)


@dataclass
class Session:
    """The run's plugin object.

    Attributes:
        config: pytest's configuration.
        settings: Ours.
        registry: What is installed.
        plan: What will be judged.
        collected: What items said; filled in the controller from test reports.
    """

    config: pytest.Config
    settings: RunConfig
    registry: Registry
    plan: RunPlan
    collected: Collected = field(default_factory=Collected)
    _bench: Bench | None = None

    @classmethod
    def begin(cls, config: pytest.Config) -> Session:
        """Read options and registry and plan the run.

        Raises:
            FrtError: a typo, an absent extra, a filter that matches nothing.
        """
        facts = machine_facts()
        settings = run_config(config, threads=facts[0].threads)
        registry = Registry.load()
        for glob in settings.selection.include.get("host", ()):
            if os.sep in glob:
                registry = registry.with_host(config.invocation_params.dir / glob)
        return cls(config, settings, registry, plan_run(settings, registry, facts))

    @property
    def bench(self) -> Bench:
        """The bench of this process, started when first needed."""
        if self._bench is None:
            from pytest_frt.run.bench import Bench

            progress = TerminalProgress.of(self.config)
            self._bench = Bench(self.settings, self.registry, self.plan, progress, environ=os.environ)
        return self._bench

    def judge(self, node: pytest.Item, record: RecordPlan, gate: str) -> None:
        """Judge one gate of one record as one pytest item."""
        result = self._asked(node, lambda: self.bench.judge(record, gate))
        node.user_properties.append((GATE_PROPERTY, codec.dumps(result)))
        if fails(result.verdict):
            pytest.fail(lines.failure(result, record, self.settings), pytrace=False)

    def unite(self, node: pytest.Item, union: UnionPlan) -> None:
        """Judge one union as one pytest item."""
        result = self._asked(node, lambda: self.bench.union(union))
        node.user_properties.append((UNION_PROPERTY, codec.dumps(result)))
        if fails(result.verdict):
            pytest.fail(lines.union_failure(result), pytrace=False)

    def _asked(self, node: pytest.Item, ask: Any) -> Any:  # noqa: ANN401 (GateResult or UnionResult)
        try:
            return ask()
        except FrtError as fault:
            node.user_properties.append((FAULT_PROPERTY, fault.exit_code))
            pytest.fail(fault.diagnostics(), pytrace=False)

    def pytest_report_header(self) -> list[str]:
        """Say what is judged, with what, on what."""
        return header.header(self.settings, self.registry, self.plan)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what an item said; in a test worker the controller does this."""
        if report.when != "call" and report.outcome == "passed":
            return
        for name, value in report.user_properties:
            if name == GATE_PROPERTY:
                self.collected.add_gate(codec.loads(GateResult, str(value)), passed_item=report.outcome != "skipped")
            elif name == UNION_PROPERTY:
                self.collected.add_union(codec.loads(UnionResult, str(value)))
            elif name == FAULT_PROPERTY:
                self.collected.add_fault(int(str(value)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Give findings that are neither passes nor failures their own words."""
        if report.when != "call" or report.outcome != "passed":
            return None
        for name, value in report.user_properties:
            if name in {GATE_PROPERTY, UNION_PROPERTY}:
                kind = GateResult if name == GATE_PROPERTY else UnionResult
                verdict = codec.loads(kind, str(value)).verdict
                if not isinstance(verdict, Pass) or verdict.band == "provisional":
                    word = fold([verdict], (verdict.gate,)).outcome.value
                    return word.lower(), word[0].lower(), word
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """End the workers; in the controller seal, report and set the exit code."""
        if self._bench is not None:
            self._bench.close()
        if hasattr(self.config, "workerinput") or self.config.option.collectonly:
            return
        if exitstatus in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR}:
            return
        self.collected.close(self.settings, self.plan)
        session.exitstatus = self.collected.exit_code(timing=self.settings.timing)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table of records, the plans and the files."""
        if self.config.option.collectonly:
            return
        for line in table.summary(self.collected, self.settings, self.plan):
            terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """End the workers of a run that was cut short."""
        if self._bench is not None:
            self._bench.close()
