"""Fixed work that no impl touches: a canary whose time changes with the machine alone, and the peak of its memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import torch

PRELUDE: Final = 4
"""Untimed runs at least. After one, the canary told a base of 50 ms from a candidate of 45 ms by 1-2 %."""
PRELUDE_S: Final = 0.01
"""Seconds of untimed runs at least: where a run takes 0.4 ms, the fifth was 2-5 % slower after a base than after a
candidate in half precision; from 6 ms on, not."""
EDGE: Final = 384
"""Edge of the GEMM: its operands (1.7 MiB) leave the cache of one core, its 113 Mflop take about a millisecond."""
COPIED: Final = 1 << 20
"""float32 elements copied: 4 MiB read and 4 MiB written, so that a neighbour on the memory bus shows as well."""
PEAK_ELEMENTS: Final = (1 << 18, 1 << 23)
"""float32 elements of the buffers whose copying gives the peak: in a cache, and beyond it."""
PEAK_BYTES: Final = {"cpu": 1 << 25, "cuda": 1 << 30}
"""Bytes moved per measurement of the peak: a few milliseconds, or far above the launches."""
PEAK_ROUNDS: Final = 3
"""Measurements per buffer: the best one is the peak."""


def synchronizer(device: str) -> Callable[[], None]:
    """Return what waits until all work queued on ``device`` is done."""
    return torch.cuda.synchronize if torch.device(device).type == "cuda" else _nothing


def _nothing() -> None:
    """Work on a CPU is done when its call returns."""


class Canary:
    """A GEMM and a copy with private references, built before impl code is imported.

    Args:
        device: torch device string.
    """

    def __init__(self, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        self._left = torch.randn(EDGE, EDGE, generator=generator).to(device)
        self._right = torch.randn(EDGE, EDGE, generator=generator).to(device)
        self._product = torch.empty_like(self._left)
        self._source = torch.randn(COPIED, generator=generator).to(device)
        self._target = torch.empty_like(self._source)
        self._multiply, self._copy = torch.mm, torch.Tensor.copy_
        self._clock, self._wait = time.perf_counter, synchronizer(device)

    def seconds(self) -> float:
        """Run untimed until caches and clocks are in one state whatever ran before, then once timed."""
        began, runs = self._clock(), 0
        while runs < PRELUDE or self._clock() - began < PRELUDE_S:
            self._work()
            runs += 1
        began = self._clock()
        self._work()
        return self._clock() - began

    def _work(self) -> None:
        self._multiply(self._left, self._right, out=self._product)
        self._copy(self._target, self._source)
        self._wait()


def peak_bytes_s(device: str) -> float:
    """Return the most bytes per second, read and written, that copying reaches on ``device`` with all its threads.

    Nothing that must read fresh values from memory or the caches between cores is faster; what is, did not read them.
    """
    clock, wait, best, budget = time.perf_counter, synchronizer(device), 0.0, PEAK_BYTES[torch.device(device).type]
    for elements in PEAK_ELEMENTS:
        source = torch.ones(elements, device=device)
        target = torch.empty_like(source)
        moved = 2 * source.nbytes
        turns = max(1, budget // moved)
        for _ in range(PEAK_ROUNDS):
            wait()
            began = clock()
            for _ in range(turns):
                target.copy_(source)
            wait()
            best = max(best, turns * moved / (clock() - began))
    return best
