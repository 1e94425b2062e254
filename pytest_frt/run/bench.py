"""The bench: judges records gate by gate, pulling evidence by need, and unions of what passed alone."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.contracts.verdict import Crashed, Invalid, NotRun, Pass, Refusal, Verdict
from pytest_frt.errors import EvidenceError, StorageFault
from pytest_frt.gates import contract, null_control
from pytest_frt.rules.fold import EMULATED, RECORD_GATES
from pytest_frt.run import evidence, proof, shown
from pytest_frt.run.clocking import Clock, Course, Entrant
from pytest_frt.run.custody import Sources
from pytest_frt.run.results import GateResult, UnionResult
from pytest_frt.run.settle import Question, Settled, Settling, required_checks
from pytest_frt.run.stages import Stages, Witnessed
from pytest_frt.run.union import Unions, contested
from pytest_frt.run.workshop import JOB_S, Workshop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_frt.contracts.job import HostRef
    from pytest_frt.contracts.record import FileDigest
    from pytest_frt.contracts.structure import Limit
    from pytest_frt.contracts.timing import TimingEvidence
    from pytest_frt.lab.timing import TimingPlan
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan
    from pytest_frt.run.progress import Progress

COMPILED = "compiled"


def _moved(gate: str, files: Sequence[str]) -> Invalid:
    detail = f"{', '.join(files)} changed since the run began: run again, and leave the sources alone meanwhile"
    return Invalid(gate, "sources", detail)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a run may spend.

    Attributes:
        job_s: Seconds a parity or contract worker may take.
        timing: How much timing is collected; None for what the rule in force needs.
    """

    job_s: float = JOB_S
    timing: TimingPlan | None = None


class Bench:
    """One per pytest process. Starts workers when first needed.

    Args:
        config: The run's settings.
        registry: What is installed.
        plan: Everything the run will judge: records of one impl file share timing processes.
        progress: Where to say what is going on.
        environ: Environment of the run; workers get the scrubbed part of it.
        effort: How much it may spend.
        shop: Where its workers live, when that was made before; it is closed with the bench.
    """

    def __init__(
        self,
        config: RunConfig,
        registry: Registry,
        plan: RunPlan,
        progress: Progress,
        *,
        environ: Mapping[str, str],
        effort: Effort | None = None,
        shop: Workshop | None = None,
    ) -> None:
        effort = effort or Effort()
        self._config, self._registry, self._plan, self._progress = config, registry, plan, progress
        self._kept = {one.plan.id: one for one in plan.kept}
        self._records = (*plan.records, *(one.plan for one in plan.kept))
        self._sources = Sources(registry, self._records)
        self._shop = shop or Workshop.of(environ, config.threads, effort.job_s)
        self._stages = Stages(self._shop.client, self._shop.root / "jobs", config.seed, progress)
        self._clock = Clock(
            Path(config.out),
            self._shop.root,
            environ,
            quick=config.quick,
            seed=config.seed,
            progress=progress,
            plan=effort.timing,
            alpha=plan.level(config.family_alpha),
        )
        self._proofs = proof.Bench(registry, config.threads, config.seed)
        self._results: dict[tuple[str, str], GateResult] = {}
        self._witnesses: dict[HostRef, Witnessed | Crashed] = {}
        self._settled: dict[str, Settled] = {}
        timed = {name: (one.pairs.verdict, one.pairs.timing) for name, one in self._kept.items()}
        self._timed: dict[str, tuple[Verdict, TimingEvidence | None]] = {**timed}
        self._unions = Unions(config, self._proofs, self._stages, self._clock, self.limits)

    def judge(self, record: RecordPlan, gate: str) -> GateResult:
        """Judge one gate of one record; an earlier gate that does not hold leaves it not run."""
        for name in RECORD_GATES[: RECORD_GATES.index(gate)]:
            earlier = self.judge(record, name).verdict
            if isinstance(earlier, NotRun):
                return GateResult(record.id, gate, NotRun(gate, earlier.because))
            if not isinstance(earlier, Pass):
                return GateResult(record.id, gate, NotRun(gate, name))
        key = (record.id, gate)
        if key not in self._results:
            began = time.monotonic()
            result = getattr(self, f"_{gate}")(record)
            self._results[key] = replace(result, seconds=time.monotonic() - began)
        return self._results[key]

    def union(self, plan: UnionPlan) -> UnionResult:
        """Attach what passed alone together and judge it again."""
        began = time.monotonic()
        passed = [record for record in plan.records if self._stands(record)]
        if not passed:
            return UnionResult(plan.name, NotRun("union", "no record of it was certified"))
        witnessed = self.witness(passed[0].host)
        if isinstance(witnessed, Crashed):
            return UnionResult(plan.name, witnessed)
        alone = [(record, self._settled[record.id], self._timed[record.id][1]) for record in passed]
        timed = [record for record in plan.records if record.id in self._timed]
        result = self._unions.judge(plan.name, alone, witnessed, contested(timed))
        if changed := sorted({file for record in passed for file in self._sources.changed(record)}):
            result = replace(result, verdict=_moved("union", changed), proven=None)
        return replace(result, seconds=time.monotonic() - began)

    def _stands(self, record: RecordPlan) -> bool:
        """Report whether a record is proven: one that was kept with exactly the seats that it was certified with."""
        result = self.judge(record, "net_win")
        kept = self._kept.get(record.id)
        certified = {seat.facts.id for seat in kept.certificate.record.seats} if kept else set(result.survivors)
        return result.proven is not None and certified == set(result.survivors)

    def witness(self, host: HostRef) -> Witnessed | Crashed:
        """Return the host's witness, run once with every phase this plan needs."""
        if host not in self._witnesses:
            mine = [record for record in self._records if record.host == host]
            judged: dict[str, list[str]] = {}
            for record in mine:
                names = judged.setdefault(record.key.phase, [])
                if record.key.cell.structure not in names:
                    names.append(record.key.cell.structure)
            folders = [str(entry.folder) for entry in self._registry.structures.values()]
            self._witnesses[host] = self._stages.witness(host, judged, folders)
        return self._witnesses[host]

    def limits(self, structure: str) -> tuple[Limit, ...]:
        """Return a structure's own limits."""
        return self._registry.structure(structure).spec.limits

    def close(self) -> None:
        """End every worker and remove working files; idempotent."""
        self._clock.close()
        self._shop.close()

    def _null_control(self, record: RecordPlan) -> GateResult:
        witnessed = self.witness(record.host)
        if isinstance(witnessed, Crashed):
            return GateResult(record.id, "null_control", witnessed)
        weights = witnessed.evidence.host.weights
        verdict = null_control.judge(witnessed.evidence.null, phase=record.key.phase, weights=weights)
        seats = tuple(s.id for s in witnessed.evidence.seats if s.structure == record.key.cell.structure)
        return GateResult(record.id, "null_control", verdict, seats, shown=shown.of_host(witnessed.evidence))

    def _settle(self, record: RecordPlan) -> Settled:
        if record.id not in self._settled:
            witnessed = self.witness(record.host)
            if isinstance(witnessed, Crashed):
                raise TypeError("a record is settled only after its null control held")
            self._settled[record.id] = self._settle_anew(record, witnessed)
        return self._settled[record.id]

    def _settle_anew(self, record: RecordPlan, witnessed: Witnessed) -> Settled:
        before = self._sources.anywhere()
        if changed := self._sources.changed(record):
            return Settled({"seats": _moved("seats", changed)}, {}, (), (), None)
        limits = {record.unit.structure: self.limits(record.unit.structure)}
        question = Question(record.host, (record.unit,), record.key.phase, record.key.form, limits)
        settled = Settling(self._stages, question, witnessed, lifecycle=True).run()
        changed = tuple(sorted(self._sources.anywhere() - before))
        if changed and isinstance(settled.verdicts.get("seats"), Pass):
            detail = f"{', '.join(changed)} changed while the candidate ran: what was judged is gone"
            return replace(settled, verdicts={**settled.verdicts, "parity": Refusal("parity", "tampered", detail)})
        return settled

    def _from_settled(self, record: RecordPlan, gate: str) -> GateResult:
        settled = self._settle(record)
        verdict = settled.verdicts.get(gate) or NotRun(gate, "an earlier gate")
        return GateResult(record.id, gate, verdict, settled.survivors, settled.refused.get(gate, ()))

    def _seats(self, record: RecordPlan) -> GateResult:
        return self._from_settled(record, "seats")

    def _parity(self, record: RecordPlan) -> GateResult:
        seen = shown.of_seams(self._settle(record), record.unit, self.limits(record.unit.structure))
        return replace(self._from_settled(record, "parity"), shown=seen)

    def _ledger(self, record: RecordPlan) -> GateResult:
        return self._from_settled(record, "ledger")

    def _contract(self, record: RecordPlan) -> GateResult:
        settled = self._settle(record)
        checks = settled.tried.evidence.lifecycle if settled.tried else ()
        verdict = contract.judge(checks, required=required_checks())
        return GateResult(record.id, "contract", verdict, settled.survivors)

    def _net_win(self, record: RecordPlan) -> GateResult:
        if record.emulated:
            absent = f"device {record.key.cell.device} is absent: nothing here tells its time"
            return GateResult(
                record.id, "net_win", Refusal("net_win", EMULATED, absent), self._settle(record).survivors
            )
        if not self._config.timing:
            return GateResult(record.id, "net_win", NotRun("net_win", "timing was switched off"))
        if record.id not in self._timed:
            self._time_group(record)
        verdict, timing = self._timed[record.id]
        settled, witnessed = self._settle(record), self.witness(record.host)
        kept = settled.tried.kept.changed() if settled.tried else ()
        if isinstance(verdict, Pass) and (changed := (*self._sources.changed(record), *kept)):
            verdict = _moved("net_win", changed)
        pairs, unkept = self._pairs(record, witnessed)
        proven = None
        if (
            isinstance(verdict, Pass)
            and timing
            and pairs
            and settled.tried
            and isinstance(witnessed, Witnessed)
            and not self._config.quick
        ):
            proven = proof.record_of(self._proofs, record, settled, settled.tried, witnessed, timing, pairs)
            try:
                proof.keep(Path(self._config.out), record, settled.tried)
            except StorageFault as fault:
                proven, unkept = None, fault.diagnostics()
        result = GateResult(record.id, "net_win", verdict, settled.survivors, proven=proven, unkept=unkept)
        if timing is None:
            return result
        return replace(result, ratios=proof.ratios(timing), shown=shown.of_timing(timing), evidence=pairs)

    def _pairs(self, record: RecordPlan, witnessed: Witnessed | Crashed) -> tuple[FileDigest | None, str]:
        """Keep what was timed, with what the clock said of it; else say why it could not be kept."""
        verdict, timing = self._timed[record.id]
        if timing is None or isinstance(witnessed, Crashed):
            return None, ""
        try:
            out, output = Path(self._config.out), witnessed.evidence.host_output
            return evidence.keep(out, record.id, timing, verdict, output=output), ""
        except (StorageFault, EvidenceError) as fault:
            return None, fault.diagnostics()

    def _time_group(self, record: RecordPlan) -> None:
        """Time every record that shares impl file, kernel build, host and form with this one."""

        def place(one: RecordPlan) -> tuple[object, ...]:
            # What is compiled is compiled for one regime.
            return (one.host, one.key.form, one.key.cache, one.key.phase if one.key.form == COMPILED else "")

        def group(one: RecordPlan) -> tuple[object, ...]:
            return (*place(one), one.unit.impl_file, one.unit.kernel_path)

        timed = [one for one in self._plan.records if not one.emulated]
        mates = [one for one in timed if group(one) == group(record)]
        phases = tuple(dict.fromkeys(one.key.phase for one in timed if place(one) == place(record)))
        ready = [one for one in mates if isinstance(self.judge(one, "contract").verdict, Pass)]
        witnessed = self.witness(record.host)
        if isinstance(witnessed, Crashed):
            raise TypeError("a record is timed only after its null control held")
        entrants = []
        for one in ready:
            settled = self._settle(one)
            scales = settled.tried.scales if settled.tried else ""
            arm = f"{one.key.phase}.{one.key.cell.scheme}"
            entrants.append(Entrant(one.id, arm, one.key.phase, settled.units, scales))
        output = witnessed.evidence.host_output
        course = Course(record.host, witnessed.seats_file, phases, record.key.form, output, record.key.cache)
        self._timed |= self._clock.judge(course, entrants)
