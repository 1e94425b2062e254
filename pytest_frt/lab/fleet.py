"""Start timing processes and load them, a few at a time; loading is not timing."""

from __future__ import annotations

import itertools
import os
import random
import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_frt.contracts.job import TimingJob
from pytest_frt.lab import priority, reaper
from pytest_frt.lab.launch import Launched, worker_environment
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing_process import BASE, Limits, ProcessLost, TimingProcess, start
from pytest_frt.lab.wire import PeerGone, PeerSilent


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


@dataclass(frozen=True, slots=True)
class Ahead:
    """A process that was started before its job was known.

    Attributes:
        launched: The process.
        folder: Its own folder.
        threads: Threads of its math libraries.
    """

    launched: Launched
    folder: Path
    threads: int


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
        self._ahead = deque[Ahead]()

    def begin(self, count: int, threads: int, libraries: Sequence[str]) -> None:
        """Start processes that import ``libraries`` and wait for a job, until there are ``count``; returns at once.

        They share the device while they import: who wants it alone waits for them. Where this process may take it back,
        they yield the cores to everything else until they are given a job.

        Args:
            count: Processes that wait.
            threads: Threads of their math libraries.
            libraries: Importable names.
        """
        missing = count - len(self._ahead)
        if missing <= 0:
            return
        lent = self._site.lock.lend()
        try:
            for _ in range(missing):
                folder = self._folder()
                launched = start(folder, self._environment(folder, threads), lent)
                priority.lower(launched.process.pid)
                self._ahead.append(Ahead(launched, folder, threads))
                with suppress(PeerGone, PeerSilent):  # seen when a job is given to it
                    launched.channel.send({"libraries": list(libraries)})
        finally:
            os.close(lent)

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
        ours = {process.pid for process in self._alive} | {one.launched.process.pid for one in self._ahead}
        return [pid for pid in reaper.marked(self._mark) if pid not in ours]

    def close(self, processes: Iterable[TimingProcess] | None = None) -> None:
        """End these processes, or all with whatever they started; idempotent."""
        while processes is None and self._ahead:
            self._ahead.popleft().launched.kill()
        for process in list(self._alive) if processes is None else list(processes):
            process.close()
            if process in self._alive:
                self._alive.remove(process)
        if not self._alive and not self._ahead:
            reaper.kill_marked(self._mark)

    def _folder(self) -> Path:
        return self._site.folder / f"{self._name}-{self._mark}" / str(next(self._numbers))

    def _environment(self, folder: Path, threads: int) -> dict[str, str]:
        cache = folder.parent / "inductor"
        return worker_environment(self._site.environ, threads=threads, mark=self._mark, cache=cache, alone=True)

    def _waiting(self, threads: int) -> Ahead | None:
        """Return a process that waits for a job and lives; others are ended."""
        while self._ahead:
            one = self._ahead.popleft()
            alive = one.threads == threads and one.launched.process.poll() is None
            if alive and priority.restore(one.launched.process.pid):
                return one
            one.launched.kill()
        return None

    def _start(self, job: TimingJob, rng: random.Random) -> TimingProcess:
        ahead = self._waiting(job.host.threads)
        folder = ahead.folder if ahead else self._folder()
        process = TimingProcess(
            replace(job, out=str(folder)),
            self._environment(folder, job.host.threads),
            self._site.limits,
            self._site.warmup,
            ahead.launched if ahead else None,
        )
        self._alive.append(process)
        order = [BASE, *(name for name in job.arms if name != BASE)]
        rng.shuffle(order)
        process.begin_load(order)
        return process
