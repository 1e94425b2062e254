"""Blocks of a tensor, copied into a few host buffers while earlier blocks are being hashed.

``Conveyor`` keeps the order: a buffer is written again only after everything read from it was hashed, and a copy runs
while the block before it is hashed. How bytes get into a buffer is an engine's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

import torch
from torch import Tensor

from pytest_frt.seat.weight_bytes import BLOCK, blocks
from pytest_frt.spec.weights_digest import runs

BUFFERS: Final = 4


class CopyEngine(Protocol):
    """Copies views of one device into a bounded number of host buffers."""

    @property
    def buffers(self) -> int:
        """How many buffers there are."""

    @property
    def size(self) -> int:
        """Bytes of one buffer, whole chunks of the digest."""

    def start(self, index: int, views: Sequence[Tensor]) -> None:
        """Begin to copy ``views``, one after the other, to the front of a buffer."""

    def finish(self, index: int) -> memoryview:
        """Wait for the copy into a buffer and return the bytes it wrote."""


class HostEngine:
    """Gathers at once, on the calling thread: for strided CPU tensors and for devices without a stream of ours.

    Args:
        size: Bytes of one buffer.
        count: Number of buffers.
    """

    def __init__(self, size: int = BLOCK, count: int = BUFFERS) -> None:
        self._held = [torch.empty(0, dtype=torch.uint8) for _ in range(count)]
        self._filled = [0] * count
        self._size = size

    @property
    def size(self) -> int:
        """Bytes of one buffer."""
        return self._size

    @property
    def buffers(self) -> int:
        """How many buffers there are; each takes memory from its first use on."""
        return len(self._held)

    def start(self, index: int, views: Sequence[Tensor]) -> None:
        """Copy ``views`` to the front of a buffer."""
        if not self._held[index].numel():
            self._held[index] = torch.empty(self._size, dtype=torch.uint8)
        self._filled[index] = fill(self._held[index], views)

    def finish(self, index: int) -> memoryview:
        """Return the bytes of a buffer."""
        return self._held[index][: self._filled[index]].numpy().data


class CudaEngine:
    """Copies from one GPU into pinned buffers on a stream of its own, after what the current stream has queued.

    Args:
        device: The GPU.
        size: Bytes of one buffer.
        count: Number of buffers.
    """

    def __init__(self, device: torch.device, size: int = BLOCK, count: int = BUFFERS) -> None:
        self._held = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(count)]
        self._filled = [0] * count
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._done = [torch.cuda.Event() for _ in range(count)]

    @property
    def size(self) -> int:
        """Bytes of one buffer."""
        return self._held[0].numel()

    @property
    def buffers(self) -> int:
        """How many pinned buffers there are."""
        return len(self._held)

    def start(self, index: int, views: Sequence[Tensor]) -> None:
        """Queue the copies of ``views`` to the front of a buffer."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            self._filled[index] = fill(self._held[index], views, non_blocking=True)
            self._done[index].record(self._stream)
        for view in views:  # memory freed meanwhile must not be given away before it was read
            view.record_stream(self._stream)

    def finish(self, index: int) -> memoryview:
        """Wait for a buffer's copies and return its bytes."""
        self._done[index].synchronize()
        return self._held[index][: self._filled[index]].numpy().data


def engine_for(device: torch.device) -> CopyEngine:
    """Return an engine for tensors of ``device``."""
    return CudaEngine(device) if device.type == "cuda" else HostEngine()


def fill(buffer: Tensor, views: Sequence[Tensor], *, non_blocking: bool = False) -> int:
    """Copy ``views``, one after the other, to the front of a uint8 buffer and return how many bytes that were."""
    at = 0
    for view in views:
        end = at + view.numel() * view.element_size()
        buffer[at:end].view(view.dtype).view(view.shape).copy_(_near(view), non_blocking=non_blocking)
        at = end
    return at


def _near(view: Tensor) -> Tensor:
    """Return column-major CPU memory packed: gathering elements a whole column apart costs a cache line each."""
    column_major = view.dim() == 2 and view.stride(0) == 1 < view.stride(1)  # noqa: PLR2004 (rows and columns)
    return view.T.contiguous().T if column_major and view.device.type == "cpu" else view


class Conveyor:
    """Moves tensors of one device through an engine's buffers to the hashing threads.

    Args:
        engine: What copies.
        submit: Has one chunk hashed on another thread.
    """

    def __init__(self, engine: CopyEngine, submit: Callable[[memoryview], Future[bytes]]) -> None:
        self._engine = engine
        self._submit = submit
        self._reading: list[list[Future[bytes]]] = [[] for _ in range(engine.buffers)]
        self._next = 0

    def send(self, bits: Tensor) -> list[Future[bytes]]:
        """Return the leaf digests of a tensor, in order, as they will be."""
        leaves: list[Future[bytes]] = []
        copying: int | None = None
        for views in blocks(bits, self._engine.size):
            index = self._next
            self._next = (index + 1) % self._engine.buffers
            for future in self._reading[index]:
                future.result()
            self._engine.start(index, views)
            if copying is not None:
                leaves += self._hash(copying)
            copying = index
        return leaves if copying is None else leaves + self._hash(copying)

    def _hash(self, index: int) -> list[Future[bytes]]:
        self._reading[index] = [self._submit(chunk) for chunk in runs(self._engine.finish(index))]
        return self._reading[index]
