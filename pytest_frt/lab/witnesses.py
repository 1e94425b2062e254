"""Processes that run the base and never load impl code: what the base costs, and what it returns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

from pytest_frt.contracts.job import TimingJob
from pytest_frt.contracts.verdict import Crashed
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.fleet import Fleet
from pytest_frt.lab.kept import Values, take
from pytest_frt.lab.region import ArmRun, Draw, Expected, first_base
from pytest_frt.lab.timing_process import BASE, GATE, ProcessLost, TimingProcess, Turn


class WitnessLost(EvidenceError):
    """A witness process died, hung or broke the protocol: the host itself cannot be timed.

    Args:
        lost: What became of the process.
    """

    code = "WITNESS_LOST"

    def __init__(self, lost: ProcessLost) -> None:
        super().__init__(f"witness: {lost.message}")
        self.kind = lost.kind

    def verdict(self) -> Crashed:
        """Return it as evidence of the net-win gate."""
        return Crashed(GATE, self.kind, self.message)


def _covers(loaded: TimingJob, wanted: TimingJob) -> bool:
    """Report whether processes that hold one base job can answer for another."""
    return set(wanted.phases) <= set(loaded.phases) and replace(wanted, phases=loaded.phases) == loaded


class Witnesses:
    """Witness processes, kept loaded for as long as the same host is timed in the same form.

    Args:
        fleet: Starts them.
        count: How many.
    """

    def __init__(self, fleet: Fleet, count: int) -> None:
        self._fleet = fleet
        self._count = count
        self._job: TimingJob | None = None
        self._processes: list[TimingProcess] = []
        self._seconds: dict[str, list[list[float]]] = {}
        self._peaks: dict[int, float] = {}

    @property
    def expected(self) -> Expected | None:
        """What the untouched host returns; None when there is no witness to ask."""
        return self._output if self._count else None

    @property
    def count(self) -> int:
        """How many there are once loaded."""
        return self._count

    @property
    def peak_bytes_s(self) -> float:
        """Most bytes per second that a witness moved, 0 before any was timed."""
        return max(self._peaks.values(), default=0.0)

    def prepare(self, job: TimingJob, rng: random.Random) -> None:
        """Load witnesses for the host of ``job`` unless they are loaded, and forget earlier seconds.

        Raises:
            WitnessLost: the host itself cannot be timed.
        """
        base = replace(job, arms={BASE: ()}, scales={}, seats="", form=job.base_form, out="")
        if self._job is None or not _covers(self._job, base):
            self.close()
            with self._watched():
                self._processes = self._fleet.load(base, self._count, rng)
            self._job = base
        self._seconds = {phase: [[] for _ in self._processes] for phase in self._job.phases}

    def time(self, index: int, blocks: int, draw: Draw) -> None:
        """Take blocks of base against base from one witness.

        Raises:
            WitnessLost: it died, hung or broke the protocol.
        """
        run, second_base = ArmRun(self._processes[index], index, None), Turn(BASE, draw.phase, 1)
        with self._watched():
            if index not in self._peaks:
                self._peaks[index] = run.process.peak()
            run.process.warm(second_base)
            for pair in (pair for _ in range(blocks) for pair in run.block(second_base, draw)):
                self._seconds[draw.phase][index] += [pair.base.worker_s, pair.candidate.worker_s]

    def idle(self, phase: str) -> list[int]:
        """Return the witnesses that have not been timed in a phase since :meth:`prepare`."""
        return [index for index, seconds in enumerate(self._seconds.get(phase, ())) if not seconds]

    def medians(self, phase: str) -> tuple[float, ...]:
        """Return each witness's median seconds in a phase since :meth:`prepare`."""
        return tuple(median(seconds) for seconds in self._seconds.get(phase, ()) if seconds)

    def close(self) -> None:
        """End the processes; idempotent."""
        self._fleet.close()
        self._job, self._processes, self._peaks = None, [], {}

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except ProcessLost as lost:
            self.close()
            raise WitnessLost(lost) from lost

    def _output(self, phase: str, state: int, content: int) -> Values:
        # Asked for after the candidate has answered and removed at once: it finds nothing that it could return.
        with self._watched():
            self._processes[0].sample(first_base(phase), state, 1, content)
            return take(self._processes[0].keep())
