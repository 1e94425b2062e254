"""Timing processes, fleets and witnesses that are only pretended: they take the seconds they are told to take."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pytest_frt.contracts.job import TimingJob
from pytest_frt.contracts.timing import TimedSample
from pytest_frt.lab.machine import Resident
from pytest_frt.lab.region import Draw
from pytest_frt.lab.timing_process import ProcessLost, Turn


class Process:
    """Takes a second for the base and ``candidate_s`` for any other arm."""

    def __init__(
        self,
        log: list[str],
        fatal: str = "",
        private: int = 1,
        candidate_s: float = 0.5,
        regimes: dict[str, set[str]] | None = None,
    ) -> None:
        self.log, self.fatal, self.private, self.candidate_s = log, fatal, private, candidate_s
        self.regimes = {} if regimes is None else regimes
        self.contents: list[int] = []

    def resident(self) -> Resident:
        return Resident(self.private, 0)

    def warm(self, *turns: Turn) -> None:
        """Nothing is compiled."""

    def peak(self) -> float:
        return 1e9

    def sample(self, turn: Turn, state: int, repeats: int, content: int) -> TimedSample:  # noqa: ARG002 (as the real one)
        if turn.arm == self.fatal:
            raise ProcessLost("TIMEOUT", f"{turn.arm} hung")
        self.contents.append(content)
        self.regimes.setdefault(turn.arm, set()).add(turn.phase)
        self.log.append(f"{turn.arm}{turn.instance}{turn.cycle}")
        return TimedSample(turn.arm, state, 1.0 if turn.arm == "base" else self.candidate_s, 1.0, 1.0)


class Fleet:
    """Loads pretended processes; arms in ``broken`` cannot be loaded."""

    def __init__(self, *, broken: str = "", fatal: str = "", private: int = 1, candidate_s: float = 0.5) -> None:
        self.broken, self.fatal, self.private, self.candidate_s = broken, fatal, private, candidate_s
        self.log: list[str] = []
        self.regimes: dict[str, set[str]] = {}
        self.left: list[int] = []
        self.loads: list[tuple[tuple[str, ...], int]] = []

    def load(self, job: TimingJob, count: int, rng: random.Random) -> list[Process]:  # noqa: ARG002
        arms = tuple(name for name in job.arms if name != "base")
        if count:
            self.loads.append((arms, count))
        if self.broken in arms:
            raise ProcessLost("CRASH", f"{self.broken} cannot be imported")
        return [Process(self.log, self.fatal, self.private, self.candidate_s, self.regimes) for _ in range(count)]

    def strays(self) -> list[int]:
        return self.left

    def close(self, processes: Sequence[Process] | None = None) -> None:
        """Nothing runs."""


class Witness:
    """Counts the blocks that each witness was asked for."""

    expected = None
    count = 3
    peak_bytes_s = 0.0

    def __init__(self) -> None:
        self.blocks = [0, 0, 0]

    def prepare(self, job: TimingJob, rng: random.Random) -> None:  # noqa: ARG002
        self.blocks = [0, 0, 0]

    def time(self, index: int, blocks: int, draw: Draw) -> None:  # noqa: ARG002
        self.blocks[index] += blocks

    def idle(self, phase: str) -> list[int]:  # noqa: ARG002
        return [index for index, blocks in enumerate(self.blocks) if not blocks]

    def medians(self, phase: str) -> tuple[float, ...]:  # noqa: ARG002
        return (1.0, 1.0, 1.0)

    def close(self) -> None:
        """Nothing runs."""


class Silent:
    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Drop it."""
