"""Arms of one impl file and kernel build, timed in processes they share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from pytest_frt.contracts.evidence import TimingEvidence
from pytest_frt.contracts.job import TimingJob
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
    """

    arm: str
    decide: Decide
    rng: random.Random
    progress: Progress
    attempt: int = 1
    quick: bool = False


@dataclass(slots=True)
class _Loaded:
    """Processes that hold the same arms; ``batch`` is how many may be loaded at once, ``now`` the arm being timed."""

    arms: tuple[str, ...] = ()
    processes: list[TimingProcess] = field(default_factory=list)
    batch: int = 0
    now: str = ""


class TimingGroup:
    """Times the arms of one job in fresh processes.

    All processes stay loaded when memory permits: a look then takes its units from each, and the
    gate may stop the collection. Otherwise they are loaded in batches, and every process gives all
    its units, for all arms, before it ends.

    A process that is lost while an arm is timed is that arm's crash. One lost while it loads is
    blamed on an arm only when it held no other: the arms are then loaded one by one.

    Args:
        lab: The lab.
        job: Host, arms, inputs; ``out`` is chosen here.
    """

    def __init__(self, lab: TimingLab, job: TimingJob) -> None:
        self._lab = lab
        self._job = job
        self._fleet = lab.fleet("candidate")
        self._loaded = _Loaded()
        self._alone = False
        self._repeats = 0
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
            self._lab.witnesses.prepare(self._job, ask.rng)
            self._load(ask)
            draw = self._lab.draw(self._job, ask.rng, self._repeats)
            if self._loaded.batch >= self._lab.plan.processes:
                return self._by_looks(ask, draw)
            self._by_batches(ask, draw)
        runs, witness = self._banked.pop(ask.arm)
        return self._evidence(ask, runs, witness)

    def _load(self, ask: Ask) -> None:
        arms = (ask.arm,) if self._alone else tuple(name for name in self._job.arms if name not in {BASE, *self._dead})
        if self._loaded.arms == arms and self._loaded.processes:
            return
        self.close()
        self._loaded.arms = arms
        plan, available = self._lab.plan, available_bytes()
        first = self._fresh(min(plan.loads, plan.processes), ask.rng)
        fitting = first[0].resident().fitting(plan.memory_share * available)
        stays = fitting >= plan.processes if self._lab.resident is None else self._lab.resident
        batch = self._loaded.batch = plan.processes if stays else max(1, min(fitting, plan.processes - 1))
        self._fleet.close(first[batch:])
        self._loaded.processes = first[:batch]
        self._repeats = self._repeats or self._lab.repeats(first[0], [Turn(arm, 1) for arm in arms])
        self._loaded.processes += self._fresh(batch - len(first[:batch]), ask.rng)

    def _fresh(self, count: int, rng: random.Random) -> list[TimingProcess]:
        self._loaded.now = ""
        arms = {BASE: (), **{name: self._job.arms[name] for name in self._loaded.arms}}
        scales = {name: file for name, file in self._job.scales.items() if name in arms}
        return self._fleet.load(replace(self._job, arms=arms, scales=scales), count, rng)

    def _by_looks(self, ask: Ask, draw: Draw) -> TimingEvidence:
        plan, expected = self._lab.plan, self._lab.witnesses.expected
        runs = [ArmRun(process, index, expected) for index, process in enumerate(self._loaded.processes)]
        for look, units in enumerate(plan.looks):
            for run in runs:
                self._region(ask.arm, run, units, draw)
                self._witness(run.index, 1, draw)
                ask.progress.step("net_win", look * len(runs) + run.index + 1, len(plan.looks) * len(runs), ask.arm)
            evidence = self._evidence(ask, runs, self._lab.witnesses.medians())
            if ask.decide(evidence) is not None:
                break
        self._no_strays(ask.arm)
        return evidence

    def _by_batches(self, ask: Ask, draw: Draw) -> None:
        plan, expected = self._lab.plan, self._lab.witnesses.expected
        runs: dict[str, list[ArmRun]] = {arm: [] for arm in self._loaded.arms}
        for index in range(plan.processes):
            if not self._loaded.processes:
                self._loaded.processes = self._fresh(min(self._loaded.batch, plan.processes - index), ask.rng)
            process = self._loaded.processes.pop(0)
            for arm in ask.rng.sample(self._loaded.arms, len(self._loaded.arms)):
                runs[arm].append(ArmRun(process, index, expected))
                self._region(arm, runs[arm][-1], plan.looks[-1], draw)
                self._no_strays(arm)
            self._fleet.close([process])
            self._witness(index, len(plan.looks), draw)
            ask.progress.step("net_win", index + 1, plan.processes, ", ".join(self._loaded.arms))
        witness = self._lab.witnesses.medians()
        self._banked = {arm: (collected, witness) for arm, collected in runs.items()}

    def _region(self, arm: str, run: ArmRun, units: int, draw: Draw) -> None:
        with self._lab.lock.exclusive():
            self._loaded.now = arm
            run.collect(arm, units, self._lab.plan.null_pairs, draw)
            self._loaded.now = ""

    def _witness(self, position: int, looks: int, draw: Draw) -> None:
        """Time the witnesses that are due after the process at ``position``: spread evenly over a look."""
        plan, count = self._lab.plan, self._lab.witnesses.count
        due = [one for one in range(count) if (2 * one + 1) * plan.processes // (2 * count) == position]
        for one in due:
            with self._lab.lock.exclusive():
                self._lab.witnesses.time(one, looks * plan.witness_blocks, draw)

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
            repeats=self._repeats,
        )
