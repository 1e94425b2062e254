"""Start timing processes and load them, a few at a time; loading is not timing."""

from __future__ import annotations

import itertools
import random
import secrets
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_frt.contracts.job import TimingJob
from pytest_frt.lab import reaper
from pytest_frt.lab.launch import worker_environment
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing_process import BASE, Limits, ProcessLost, TimingProcess


@dataclass(frozen=True, slots=True)
class Site:
    """Where timing processes run.

    Attributes:
        folder: For their files, logs and compiled code.
        environ: Environment of the run; processes get the scrubbed part of it.
        lock: Lock of the device: shared while loading, exclusive while timing.
        limits: Time limits.
        warmup: Untimed executions of each arm before its first timed one.
        loads: Processes that load at the same time.
    """

    folder: Path
    environ: Mapping[str, str]
    lock: DeviceLock
    limits: Limits
    warmup: int
    loads: int


class Fleet:
    """Timing processes that may share compiled code with each other and with nobody else.

    Args:
        site: Where they run.
        name: Names the fleet's files.
    """

    def __init__(self, site: Site, name: str) -> None:
        self._site = site
        self._name = name
        self._mark = secrets.token_hex(8)
        self._numbers = itertools.count()
        self._alive: list[TimingProcess] = []

    def load(self, job: TimingJob, count: int, rng: random.Random) -> list[TimingProcess]:
        """Return ``count`` fresh processes that have loaded ``job``, each in an order of its own.

        Raises:
            ProcessLost: one died, hung or could not bind; none of this call is left.
        """
        queue, loading, ready = deque(range(count)), deque[TimingProcess](), list[TimingProcess]()
        try:
            with self._site.lock.shared():
                while queue or loading:
                    # The last of an odd number joins the pair before it: alone, it would leave a core idle.
                    room = self._site.loads + (len(queue) + len(loading) == self._site.loads + 1)
                    while queue and len(loading) < room:
                        queue.popleft()
                        loading.append(self._start(job, rng))
                    loading[0].end_load()
                    ready.append(loading.popleft())
        except ProcessLost:
            self.close([*loading, *ready])
            raise
        return ready

    def strays(self) -> list[int]:
        """Return running processes that a timing process started: what they use is missing in its seconds."""
        ours = {process.pid for process in self._alive}
        return [pid for pid in reaper.marked(self._mark) if pid not in ours]

    def close(self, processes: Iterable[TimingProcess] | None = None) -> None:
        """End these processes, or all with whatever they started; idempotent."""
        for process in list(self._alive) if processes is None else list(processes):
            process.close()
            if process in self._alive:
                self._alive.remove(process)
        if not self._alive:
            reaper.kill_marked(self._mark)

    def _start(self, job: TimingJob, rng: random.Random) -> TimingProcess:
        folder = self._site.folder / f"{self._name}-{self._mark}" / str(next(self._numbers))
        cache = folder.parent / "inductor"
        environment = worker_environment(
            self._site.environ, threads=job.host.threads, mark=self._mark, cache=cache, alone=True
        )
        process = TimingProcess(replace(job, out=str(folder)), environment, self._site.limits, self._site.warmup)
        self._alive.append(process)
        order = [BASE, *(name for name in job.arms if name != BASE)]
        rng.shuffle(order)
        process.begin_load(order)
        return process
