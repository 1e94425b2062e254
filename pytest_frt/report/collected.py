"""What a run's items said, folded by record. Nothing is judged here, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pytest_frt.contracts.record import PlanRecord, Record
from pytest_frt.contracts.verdict import Outcome
from pytest_frt.errors import StorageFault
from pytest_frt.report.told import Fault, Told, fails
from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES, Folded, exit_code, fold
from pytest_frt.run.emulation import label
from pytest_frt.run.results import GateResult, UnionResult
from pytest_frt.waivers import Waiver, find

if TYPE_CHECKING:
    from pytest_frt.report.compare import Change

NOT_COUNTED: Final = "not_counted"
"""Reason word of what passed and may not be stated."""


@dataclass
class Collected:
    """Messages of items, by record key id and union name.

    Attributes:
        gates: Record key id to gate name to result; no result where a fault came first.
        unions: Union name to result.
        faults: Record key id or union name to the fault that stopped it.
        tainted: Record key id or union name to why nothing may be stated of it.
        waivers: Those that hold today.
        kept: Record key id to the name (payload sha256) of the certificate that an earlier run left of it.
        worse: Record key id or union name to what got worse since an earlier run.
        emulated: Record key id to the absent device in whose place a CPU judged it: nothing of it is ever stated.
        began: When the run began, seconds since the epoch.
    """

    gates: dict[str, dict[str, GateResult]] = field(default_factory=dict)
    unions: dict[str, UnionResult] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    tainted: dict[str, str] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    kept: dict[str, str] = field(default_factory=dict)
    worse: dict[str, list[str]] = field(default_factory=dict)
    emulated: Mapping[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.time)

    def add(self, told: Told, *, flaw: str = "") -> None:
        """Add one item's message.

        Args:
            told: The message.
            flaw: Why the item does not count as judged although it spoke (skipped, expected to fail, run again).
        """
        if flaw:
            self.taint(told.subject, f"{told.gate} was {flaw}")
        if told.fault:
            self.faults.setdefault(told.subject, told.fault)
            if told.gate not in PLAN_GATES:
                self.gates.setdefault(told.subject, {})
        elif told.union:
            self._once(told, known=told.subject in self.unions)
            self.unions[told.subject] = told.union
        elif told.result:
            gates = self.gates.setdefault(told.subject, {})
            self._once(told, known=told.gate in gates)
            gates[told.gate] = told.result
            if told.result.unkept:
                self.faults[told.subject] = Fault(StorageFault.code, told.result.unkept, StorageFault.exit_code)

    def _once(self, told: Told, *, known: bool) -> None:
        if known:
            self.taint(told.subject, f"{told.gate} was judged twice")

    def taint(self, subject: str, why: str) -> None:
        """Note why nothing may be stated of a record or union; the first reason stays."""
        self.tainted.setdefault(subject, why)

    def note_worse(self, changes: Iterable[Change]) -> None:
        """Note what got worse since an earlier run, for the lines of records."""
        for one in changes:
            self.worse.setdefault(one.subject, []).append(one.text)

    @property
    def spoken(self) -> bool:
        """Whether any item told anything."""
        return bool(self.gates or self.unions or self.faults)

    def folded(self, record: str) -> Folded:
        """Return the outcome of one record: what the gates that were run say, ``NOT_RUN`` where some were not."""
        if record in self.kept and record not in self.gates:
            return Folded(Outcome.CERTIFIED, correct=True)
        found = self._said(record)
        result = self.gates.get(record, {}).get(found.gate)
        return self._waived(record, found, result) if result else found

    def _waived(self, subject: str, found: Folded, result: GateResult | UnionResult) -> Folded:
        """Give a failure that somebody answers for its own word; it stays what it is: neither correct nor proven."""
        waiver = find(self.waivers, subject, found.gate) if fails(result.verdict) else None
        if waiver is None:
            return found
        detail = f"{waived_by(waiver)}; {found.outcome.value} {found.detail}"
        return replace(found, outcome=Outcome.WAIVED, detail=detail)

    def _said(self, record: str) -> Folded:
        gates = self.gates.get(record, {})
        judged = tuple(name for name in RECORD_GATES if name in gates)
        verdicts = [gates[name].verdict for name in judged]
        whole = fold(verdicts)
        found = fold(verdicts, judged) if judged else whole
        if found.outcome not in {Outcome.CERTIFIED, Outcome.NOT_RUN}:
            return replace(found, correct=whole.correct)
        if fault := self.faults.get(record):
            return Folded(Outcome.NOT_RUN, whole.gate, fault.code.lower(), fault.message, correct=whole.correct)
        if whole.outcome is Outcome.CERTIFIED and (why := self._unproven(record)):
            return Folded(Outcome.NOT_RUN, whole.gate, NOT_COUNTED, why, correct=whole.correct)
        return found if found.outcome is Outcome.NOT_RUN else whole

    def _unproven(self, record: str) -> str:
        """Return why nothing may be stated of a record whose every gate holds; empty when it may."""
        if device := self.emulated.get(record):
            return label(device)
        proven = self.gates[record]["net_win"].proven
        return self.tainted.get(record, "" if proven else "the judge handed over no record of it")

    def united(self, union: str) -> Folded:
        """Return the outcome of one union: it stands on members that all stand."""
        result = self.unions[union]
        found = fold([result.verdict], PLAN_GATES)
        if found.outcome is not Outcome.CERTIFIED:
            return self._waived(union, found, result)
        fallen = [one.record for one in result.members if self.folded(one.record).outcome is not Outcome.CERTIFIED]
        why = self.tainted.get(union) or (f"members that do not stand: {', '.join(fallen)}" if fallen else "")
        return Folded(Outcome.NOT_RUN, PLAN_GATES[0], NOT_COUNTED, why) if why else found

    def proven(self) -> dict[str, Record]:
        """Return the records that may be stated: every gate judged once, in an item that counts, and passed."""
        found: dict[str, Record] = {}
        for name, gates in self.gates.items():
            record = gates["net_win"].proven if self.folded(name).outcome is Outcome.CERTIFIED else None
            if record is not None:
                found[name] = record
        return found

    def plans(self) -> dict[str, PlanRecord]:
        """Return the unions that may be stated."""
        standing = {name for name in self.unions if self.united(name).outcome is Outcome.CERTIFIED}
        return {name: one.proven for name, one in self.unions.items() if name in standing and one.proven is not None}

    def withheld(self) -> Iterator[tuple[str, str]]:
        """Yield proven records and plans that may not be stated, with why."""
        folds = {name: self.folded(name) for name in self.gates} | {name: self.united(name) for name in self.unions}
        yield from ((name, found.detail) for name, found in folds.items() if found.reason == NOT_COUNTED)

    def exit_code(self, *, timing: bool) -> int:
        """Return the exit code of the run: a correctness failure weighs more than a fault."""
        unions = [found for found in map(self.united, self.unions) if found.outcome is not Outcome.NOT_RUN]
        code = exit_code([*map(self.folded, self.gates), *unions], timing=timing)
        if code != 1 and self.faults:
            return max(fault.exit_code for fault in self.faults.values())
        return 0 if self.kept and code != 1 else code


def waived_by(waiver: Waiver) -> str:
    """Return who answers for a waived failure, until when, why and where it is tracked."""
    return f"waived by {waiver.owner} until {waiver.expires}: {waiver.reason} ({waiver.url})"
