"""Collect net-win evidence: fresh processes, timed one at a time, their units taken look by look.

The judge's side: no torch, no impl code. What is measured where is described in
:mod:`pytest_frt.lab.timing_worker`, how looks are taken in :mod:`pytest_frt.lab.timing_group`; the rule that reads
the evidence lies in ``pytest_frt.rules``.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pytest_frt.contracts.job import TimingJob
from pytest_frt.contracts.timing import TimedPair
from pytest_frt.contracts.verdict import Crashed
from pytest_frt.lab.fleet import Fleet, Site
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.region import ArmRun, Draw, first_base
from pytest_frt.lab.timing_process import CONTENT_BITS, Limits, ProcessLost, TimingProcess, Turn
from pytest_frt.lab.witnesses import Witnesses

MAX_REPEATS: Final = 512
"""Executions per region: a model that takes under 4 microseconds is none."""
_PROBES: Final = 3  # the fastest of three is close enough to choose a repeat count
_GROWTH: Final = 16.0  # a single cold execution tells little about a hundred warm ones
_MARGIN: Final = 1.1  # so that the second estimate usually is the last


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How much is collected. The defaults are those of FRT-NW-1.

    Attributes:
        processes: Fresh processes.
        looks: Blocks of two pairs per process at each look.
        scouts: Processes that are loaded before the others: the fewest in an even number whose units can make an arm
            hopeless, two loading at a time.
        one_by_one: Ask after the first units of every process, whatever is loaded, in place of scouting.
        null_pairs: Base-against-base pairs per process.
        witnesses: Processes that time the base without impl code.
        witness_blocks: Blocks each witness gives per look.
        keep_share: Share of timed regions whose output is compared afterwards.
        region_s: Shortest timed region, seconds: far above the clock's resolution and a wake-up, and several executions
            of a model of a few milliseconds, whose single executions scatter by 4 to 9 % on a shared machine.
        warmup: Untimed executions of each arm before its first timed one.
        loads: Processes that load at the same time.
        memory_share: Share of the available memory that loaded processes may fill.
    """

    processes: int = 8
    looks: tuple[int, ...] = (3, 6, 10)
    scouts: int = 4
    one_by_one: bool = False
    null_pairs: int = 4
    witnesses: int = 3
    witness_blocks: int = 2
    keep_share: float = 0.1
    region_s: float = 0.02
    warmup: int = 2
    loads: int = 2
    memory_share: float = 0.85


class TimingLab:
    """Times arms of hosts on one device.

    Args:
        folder: For files, logs and compiled code.
        environ: Environment of the run; processes get the scrubbed part of it.
        lock: Lock of the device: exclusive while a region is timed, shared while processes load.
        plan: How much is collected.
        limits: Time limits of each process.
        resident: Keep all processes of a group loaded; None decides by measured memory.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str],
        lock: DeviceLock | None = None,
        plan: TimingPlan | None = None,
        limits: Limits | None = None,
        resident: bool | None = None,
    ) -> None:
        self.plan = plan or TimingPlan()
        self.resident = resident
        self.folder = folder
        self.lock = lock or DeviceLock("cpu")
        self._site = Site(folder, environ, self.lock, limits or Limits(), self.plan.warmup, self.plan.loads)
        self.witnesses = Witnesses(Fleet(self._site, "witness"), self.plan.witnesses)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fleet(self, name: str) -> Fleet:
        """Return a fleet that shares nothing with others."""
        return Fleet(self._site, name)

    def repeats(self, process: TimingProcess, turn: Turn) -> int:
        """Return how many executions make a region of ``plan.region_s`` in the faster of ``turn`` and the base.

        Raises:
            ProcessLost: the process died, hung or broke the protocol.
        """
        wanted, repeats, probed = self.plan.region_s, 1, (first_base(turn.phase), turn)
        with self.lock.exclusive():
            process.warm(*probed)
            while repeats < MAX_REPEATS:
                fastest = min(
                    process.sample(turn, 0, repeats, secrets.randbits(CONTENT_BITS)).worker_s
                    for turn in probed
                    for _ in range(_PROBES)
                )
                if fastest >= wanted:
                    break
                repeats = min(MAX_REPEATS, math.ceil(repeats * min(_GROWTH, _MARGIN * wanted / max(fastest, 1e-9))))
        return repeats

    def draw(self, job: TimingJob, phase: str, rng: random.Random, repeats: int) -> Draw:
        """Return what chance decides for a job in a phase."""
        return Draw(rng, phase, job.states, repeats, self.plan.keep_share)

    def compare(self, job: TimingJob, arm: str, *, pairs: int, rng: random.Random) -> tuple[TimedPair, ...] | Crashed:
        """Time ``arm`` against the base in the job's first phase, in one process; their forms may differ.

        One start shows nothing about other starts: such pairs are a comparison, never a certificate.
        """
        fleet, turn = self.fleet("comparison"), Turn(arm, job.phases[0], 1)
        try:
            (process,) = fleet.load(job, 1, rng)
            draw = self.draw(job, turn.phase, rng, self.repeats(process, turn))
            run = ArmRun(process, 0, None)
            with self.lock.exclusive():
                blocks = [run.block(turn, draw) for _ in range(math.ceil(pairs / 2))]
            return tuple(pair for block in blocks for pair in block)
        except ProcessLost as lost:
            return lost.verdict()
        finally:
            fleet.close()

    def close(self) -> None:
        """End the witnesses. Groups end by themselves."""
        self.witnesses.close()
