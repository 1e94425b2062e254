"""A fixed piece of work that no impl touches: what changes its time is the machine, or impl code that reaches out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import torch

PRELUDE: Final = 4
"""Untimed runs. After one, the canary told a base of 50 ms from a candidate of 45 ms by 1-2 %; after four, not."""
EDGE: Final = 384
"""Edge of the GEMM: its operands (1.7 MiB) leave the cache of one core, its 113 Mflop take about a millisecond."""
COPIED: Final = 1 << 20
"""float32 elements copied: 4 MiB read and 4 MiB written, so that a neighbour on the memory bus shows as well."""


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
        for _ in range(PRELUDE):
            self._work()
        began = self._clock()
        self._work()
        return self._clock() - began

    def _work(self) -> None:
        self._multiply(self._left, self._right, out=self._product)
        self._copy(self._target, self._source)
        self._wait()
