"""Arms of one impl file and kernel build, timed in processes they share."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from pytest_frt.contracts.job import HOT, TimingJob
from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.contracts.verdict import Crashed, Verdict
from pytest_frt.lab.machine import available_bytes
from pytest_frt.lab.region import ArmRun, Draw
from pytest_frt.lab.timing import TimingLab
from pytest_frt.lab.timing_process import BASE, ProcessLost, TimingProcess, Turn
from pytest_frt.lab.witnesses import WitnessLost

Decide = Callable[[TimingEvidence], Verdict | None]
"""Given what was collected at a look, the verdict, or None to take the units of the next look."""


class Progress(Protocol):
    """Where to say how far a collection is."""

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Report ``done`` of ``total`` steps of a stage."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for evidence.

    Attributes:
        arm: Arm to time.
        decide: The gate, asked after each look.
        rng: The judge's generator: orders, inputs, what is kept.
        progress: Told after each process.
        attempt: Which consecutive attempt this is.
        quick: True for the provisional form.
        alpha: Level that a first attempt spends; None for the rule's own.
        bytes_read: Fewest bytes that one execution of the arm must read; 0 if unknown.
    """

    arm: str
    decide: Decide
    rng: random.Random
    progress: Progress
    attempt: int = 1
    quick: bool = False
    alpha: float | None = None
    bytes_read: int = 0


@dataclass(slots=True)
class _Loaded:
    """Processes that hold the same arms; ``batch`` may be loaded at once, ``now`` is the arm being timed."""

    arms: tuple[str, ...] = ()
    processes: list[TimingProcess] = field(default_factory=list)
    resident: bool = False
    batch: int = 0
    now: str = ""


def losing(runs: Sequence[ArmRun]) -> bool:
    """Report whether the arm was slower than the base in more than half of its pairs."""
    pairs = [pair for run in runs for block in run.blocks for pair in block]
    return 2 * sum(pair.candidate.worker_s > pair.base.worker_s for pair in pairs) > len(pairs)


class TimingGroup:
    """Times the arms of one job in fresh processes.

    All processes stay loaded when memory permits: a look then takes its units from each, and the
    gate may stop the collection. For an arm that has the group to itself, scouts are loaded first:
    when it loses in them it gives all their units, and when the gate finds the rest hopeless, no
    further process is loaded for it. Stopping early can only lower the share of arms that pass.

    Otherwise a few processes are loaded at a time, and each gives all its units, for all arms,
    before it ends; the gate is asked after each.

    A process that is lost while an arm is timed is that arm's crash. One lost while it loads is
    blamed on an arm only when it held no other: the arms are then loaded one by one.

    Args:
        lab: The lab.
        job: Host, arms, inputs; ``out`` is chosen here.
        regimes: Arm name to the phase it is timed in; an arm that is not named is timed in the job's first.
        witnessed: Every phase in which the host is timed, here or in a later group: witnesses are loaded once.
    """

    def __init__(
        self,
        lab: TimingLab,
        job: TimingJob,
        regimes: Mapping[str, str] | None = None,
        witnessed: Sequence[str] = (),
    ) -> None:
        self._lab = lab
        self._job = job
        self._regimes = {arm: (regimes or {}).get(arm, job.phases[0]) for arm in job.arms}
        self._witnessed = tuple(witnessed) or job.phases
        self._fleet = lab.fleet("candidate")
        self._loaded = _Loaded()
        self._alone = False
        self._repeats: dict[str, int] = {}
        self._dead: dict[str, Crashed] = {}
        self._banked: dict[str, tuple[list[ArmRun], tuple[float, ...]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def collect(self, ask: Ask) -> TimingEvidence | Crashed:
        """Return fresh evidence for one arm, or what became of a process that was lost while it was gathered."""
        while ask.arm not in self._dead:
            try:
                return self._collect(ask)
            except WitnessLost as lost:
                return lost.verdict()
            except ProcessLost as lost:
                self._blame(ask.arm, lost)
        return self._dead[ask.arm]

    def close(self) -> None:
        """End every process; idempotent."""
        self._fleet.close()
        self._loaded = _Loaded()

    def _blame(self, asked: str, lost: ProcessLost) -> None:
        held, culprit = self._loaded.arms, self._loaded.now
        self.close()
        if culprit or len(held) == 1:
            self._dead[culprit or asked] = lost.verdict()
        else:
            self._alone = True

    def _collect(self, ask: Ask) -> TimingEvidence:
        if ask.arm not in self._banked:
            self._lab.witnesses.prepare(replace(self._job, phases=self._witnessed), ask.rng)
            self._open(ask)
            if self._loaded.resident:
                return self._by_looks(ask, self._draw(ask, ask.arm))
            self._by_batches(ask)
        runs, witness = self._banked.pop(ask.arm)
        return self._evidence(ask, runs, witness)

    def _open(self, ask: Ask) -> None:
        """Load the first processes, and decide by their size how many may be loaded."""
        arms = (ask.arm,) if self._alone else tuple(name for name in self._job.arms if name not in {BASE, *self._dead})
        if self._loaded.arms == arms and self._loaded.processes:
            return
        self.close()
        self._loaded.arms = arms
        plan, available = self._lab.plan, available_bytes()
        self._grow(min(plan.loads, plan.processes), ask)
        first = self._loaded.processes[0]
        fitting = first.resident().fitting(plan.memory_share * available)
        self._loaded.resident = fitting >= plan.processes if self._lab.resident is None else self._lab.resident
        self._loaded.batch = plan.processes if self._loaded.resident else max(1, min(fitting, plan.loads))
        self._fleet.close(self._loaded.processes[self._loaded.batch :])
        del self._loaded.processes[self._loaded.batch :]
        for arm in arms:
            self._repeats[arm] = self._repeats.get(arm) or self._count(first, arm)

    def _count(self, first: TimingProcess, arm: str) -> int:
        """Return the executions of a region: of a cold one only the first would find the caches empty."""
        return self._lab.repeats(first, Turn(arm, self._regimes[arm], 1)) if self._job.cache == HOT else 1

    def _draw(self, ask: Ask, arm: str) -> Draw:
        return self._lab.draw(self._job, self._regimes[arm], ask.rng, self._repeats[arm])

    def _grow(self, count: int, ask: Ask) -> None:
        """Have ``count`` processes loaded."""
        arms = {BASE: (), **{name: self._job.arms[name] for name in self._loaded.arms}}
        scales = {name: file for name, file in self._job.scales.items() if name in arms}
        missing = count - len(self._loaded.processes)
        job = replace(self._job, arms=arms, scales=scales)
        self._loaded.processes += self._fleet.load(job, missing, ask.rng)
        ask.progress.step("load", len(self._loaded.processes), self._lab.plan.processes, ", ".join(self._loaded.arms))

    def _by_looks(self, ask: Ask, draw: Draw) -> TimingEvidence:
        plan, runs = self._lab.plan, list[ArmRun]()
        stages = [(plan.processes, units) for units in plan.looks]
        loaded = len(self._loaded.processes)
        if plan.one_by_one:
            stages[:0] = [(count, plan.looks[0]) for count in range(1, plan.processes)]
        elif loaded <= plan.scouts < plan.processes and len(self._loaded.arms) == 1:
            stages.insert(0, (plan.scouts, plan.looks[0]))
        for processes, units in stages:
            self._look(ask, runs, processes, units, draw)
            if processes < plan.processes and losing(runs):
                self._look(ask, runs, processes, plan.looks[-1], draw)
            if self._decided(ask, runs, draw):
                break
        self._no_strays(ask.arm)
        return self._evidence(ask, runs, self._lab.witnesses.medians(draw.phase))

    def _look(self, ask: Ask, runs: list[ArmRun], processes: int, units: int, draw: Draw) -> None:
        """Bring the first ``processes`` up to ``units``, loading those that are missing."""
        self._grow(max(processes, len(self._loaded.processes)), ask)
        fresh = self._loaded.processes[len(runs) : processes]
        runs += [ArmRun(process, len(runs) + new, self._lab.witnesses.expected) for new, process in enumerate(fresh)]
        for run in runs:
            self._region(ask, ask.arm, run, units, draw)
            self._witness(run.index, len(runs), 1, draw)

    def _by_batches(self, ask: Ask) -> None:
        plan, wanted = self._lab.plan, list(self._loaded.arms)
        draws = {arm: self._draw(ask, arm) for arm in wanted}
        regimes = {draw.phase: draw for draw in draws.values()}
        runs: dict[str, list[ArmRun]] = {arm: [] for arm in wanted}
        for index in range(plan.processes):
            if not self._loaded.processes:
                self._grow(min(self._loaded.batch, plan.processes - index), ask)
            process = self._loaded.processes.pop(0)
            for arm in ask.rng.sample(wanted, len(wanted)):
                runs[arm].append(ArmRun(process, index, self._lab.witnesses.expected))
                self._region(ask, arm, runs[arm][-1], plan.looks[-1], draws[arm])
                self._no_strays(arm)
            self._fleet.close([process])
            for draw in regimes.values():
                self._witness(index, plan.processes, len(plan.looks), draw)
            if ask.arm in wanted and self._decided(ask, runs[ask.arm], draws[ask.arm]):
                wanted.remove(ask.arm)
            if not wanted:
                break
        witness = self._lab.witnesses
        self._banked = {arm: (collected, witness.medians(draws[arm].phase)) for arm, collected in runs.items()}

    def _decided(self, ask: Ask, runs: Sequence[ArmRun], draw: Draw) -> bool:
        """Ask the gate, with every witness timed at least once."""
        for idle in self._lab.witnesses.idle(draw.phase):
            self._time_witness(idle, 1, draw)
        return ask.decide(self._evidence(ask, runs, self._lab.witnesses.medians(draw.phase))) is not None

    def _region(self, ask: Ask, arm: str, run: ArmRun, units: int, draw: Draw) -> None:
        plan = self._lab.plan
        with self._lab.lock.exclusive():
            self._loaded.now = arm
            run.collect(arm, units, plan.null_pairs, draw)
            self._loaded.now = ""
        ask.progress.step("time", run.index * plan.looks[-1] + units, plan.processes * plan.looks[-1], arm)

    def _witness(self, position: int, of: int, looks: int, draw: Draw) -> None:
        """Time the witnesses that are due after process ``position`` of ``of``: they are spread evenly over a look."""
        count = self._lab.witnesses.count
        for one in range(count):
            if (2 * one + 1) * of // (2 * count) == position:
                self._time_witness(one, looks, draw)

    def _time_witness(self, index: int, looks: int, draw: Draw) -> None:
        with self._lab.lock.exclusive():
            self._lab.witnesses.time(index, looks * self._lab.plan.witness_blocks, draw)

    def _no_strays(self, arm: str) -> None:
        if strays := self._fleet.strays():
            self._loaded.now = arm
            raise ProcessLost("CRASH", f"{len(strays)} processes run beside the timing process, started by its code")

    def _evidence(self, ask: Ask, runs: Sequence[ArmRun], witness: tuple[float, ...]) -> TimingEvidence:
        return TimingEvidence(
            processes=tuple(run.timing() for run in runs),
            witness_base_s=witness,
            attempt=ask.attempt,
            quick=ask.quick,
            repeats=self._repeats[ask.arm],
            alpha=ask.alpha,
            bytes_read=ask.bytes_read,
            peak_bytes_s=self._lab.witnesses.peak_bytes_s,
        )
