"""What a run's items said, folded by record; sealing happens here, in the controller alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.contracts.verdict import NotRun, Outcome
from pytest_frt.errors import FrtError
from pytest_frt.lab.store import writing
from pytest_frt.rules import fold
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RunPlan
    from pytest_frt.run.results import GateResult, UnionResult
    from pytest_frt.run.seal import Sealed

JSON_SCHEMA: Final = "frt-report/1"


@dataclass
class Collected:
    """Results by record key id and union name.

    Attributes:
        gates: Record key id to gate name to result.
        unions: Union name to result.
        faults: Exit codes of faults that stopped an item.
        sealed: What was written; None when nothing could be.
        notes: Sentences for the summary: what could not be written, what was withheld.
    """

    gates: dict[str, dict[str, GateResult]] = field(default_factory=dict)
    unions: dict[str, UnionResult] = field(default_factory=dict)
    faults: list[int] = field(default_factory=list)
    sealed: Sealed | None = None
    notes: list[str] = field(default_factory=list)
    _twice: set[str] = field(default_factory=set)

    def add_gate(self, result: GateResult, *, passed_item: bool) -> None:
        """Add one gate. A gate judged twice (a rerun) or in a skipped item can no longer be stated."""
        gates = self.gates.setdefault(result.record, {})
        if result.gate in gates or not passed_item:
            self._twice.add(result.record)
        gates[result.gate] = result

    def add_union(self, result: UnionResult) -> None:
        """Add one union."""
        self.unions[result.union] = result

    def add_fault(self, exit_code: int) -> None:
        """Note a fault by its exit code."""
        self.faults.append(exit_code)

    def folded(self, record: str) -> fold.Folded:
        """Return the outcome of one record."""
        gates = self.gates.get(record, {})
        ordered = [gates[name].verdict for name in fold.RECORD_GATES if name in gates]
        decided = [verdict for verdict in ordered if not isinstance(verdict, NotRun)]
        found = fold.fold(decided)
        late = next((verdict for verdict in ordered if isinstance(verdict, NotRun)), None)
        if found.outcome is Outcome.NOT_RUN and late is not None and not self.refusing(record):
            return fold.Folded(Outcome.NOT_RUN, found.gate, "not_run", late.because, correct=found.correct)
        return found

    def refusing(self, record: str) -> bool:
        """Report whether some gate of a record said no."""
        return any(not isinstance(g.verdict, NotRun) and fold.fold([g.verdict], (g.gate,)).gate for g in self.gates.get(record, {}).values())

    def close(self, settings: RunConfig, plan: RunPlan) -> None:
        """Seal what was proven and write the JSON report; a fault becomes a note, and nothing measured is lost."""
        from pytest_frt.run.seal import seal

        proven = {}
        for record, gates in self.gates.items():
            whole = set(gates) == set(fold.RECORD_GATES) and record not in self._twice
            last = gates.get("net_win")
            if whole and last is not None and last.proven is not None and self.folded(record).outcome is Outcome.CERTIFIED:
                proven[record] = last.proven
        plans = {name: result.proven for name, result in self.unions.items() if result.proven is not None}
        try:
            self.sealed = seal(proven, plans, settings)
            self.notes += [f"{name}: withheld, {why}" for name, why in self.sealed.withheld.items()]
            if settings.json:
                self._write_json(Path(settings.json), settings, plan)
        except FrtError as fault:
            self.add_fault(fault.exit_code)
            self.notes.append(fault.diagnostics())

    def _write_json(self, file: Path, settings: RunConfig, plan: RunPlan) -> None:
        document = {
            "schema": JSON_SCHEMA,
            "settings": codec.to_json(settings),
            "records": {
                record: {
                    "outcome": self.folded(record).outcome.value,
                    "reason": self.folded(record).reason,
                    "detail": self.folded(record).detail,
                    "gates": {name: codec.to_json(result) for name, result in gates.items()},
                }
                for record, gates in self.gates.items()
            },
            "unions": {name: codec.to_json(result) for name, result in self.unions.items()},
            "not_supported": [{"cell": row.cell.id, "reason": row.reason} for row in plan.not_supported],
            "files": {name: str(path) for name, path in self.sealed.files.items()} if self.sealed else {},
        }
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")

    def exit_code(self, *, timing: bool) -> int:
        """Return the exit code of the run."""
        if self.faults:
            return max(self.faults)
        records = [self.folded(record) for record in self.gates]
        unions = [fold.fold([result.verdict], fold.PLAN_GATES) for result in self.unions.values()]
        return fold.exit_code([*records, *(u for u in unions if u.outcome is not Outcome.NOT_RUN)], timing=timing)
