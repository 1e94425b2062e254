"""Slot tensors of a seat, as views of the host's, and their digest.

The digest binds bytes in memory at the moment of hashing; an impl packs them right after. A later write is found by the
guard (after a call with gradients or in training mode) and told by ``handle.explain()``, where it raises the tensor's
version counter or exchanges the tensor; a write past both (through ``.data``, a pointer) is not defended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from pytest_frt.contracts.seat import SeatFacts, SlotRef
from pytest_frt.errors import CertificateRefused, SpecError
from pytest_frt.seat.guard import version_of
from pytest_frt.seat.tree import as_matrix, dtype_name
from pytest_frt.seat.weight_bytes import obstacle, own_memory, words
from pytest_frt.seat.weight_copies import Conveyor, CopyEngine, engine_for
from pytest_frt.spec.weights_digest import CHUNK, SlotTree, leaves, runs, seat_digest, tensor_digest


def host_tensor(model: nn.Module, name: str) -> Tensor:
    """Return a parameter or buffer of the host by dotted name, detached.

    Raises:
        SpecError: the host has no such tensor.
    """
    return _host_value(model, name).detach()


def _host_value(model: nn.Module, name: str) -> Tensor:
    parent, _, last = name.rpartition(".")
    try:
        tensor = getattr(model.get_submodule(parent), last)
    except AttributeError as fault:
        raise SpecError(f"the host has no tensor {name!r}: {fault}", hint="discover its seats again") from fault
    if not isinstance(tensor, Tensor):
        raise SpecError(f"{name!r} of the host is {type(tensor).__name__}, no tensor", hint="discover its seats again")
    if is_lazy(tensor):
        raise SpecError(f"{name!r} of the host was never initialised", hint="load its weights")
    return tensor


def slot_tensors(model: nn.Module, facts: SeatFacts) -> dict[str, Tensor]:
    """Return slot name to tensor in the layout of structure.yaml.

    The tensors are views of the host's own, not to be written to; a transposed slot is a non-contiguous view, and a
    convolution's kernel a matrix.

    Raises:
        SpecError: the host lacks a tensor that the facts name.
    """
    out = {}
    for slot, ref in facts.slots.items():
        tensor = as_matrix(host_tensor(model, ref.tensor))
        out[slot] = tensor.t() if ref.transpose else tensor
    return out


RUNS_PER_THREAD: Final = 4


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor's elements lie, and in which state: equal places hold equal bytes as long as both live."""

    device: torch.device
    pointer: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    lazily_changed: tuple[bool, bool]
    version: int

    @classmethod
    def of(cls, tensor: Tensor) -> _Place:
        lazily = (tensor.is_conj(), tensor.is_neg())
        shape, stride = tuple(tensor.shape), tuple(tensor.stride())
        return cls(tensor.device, tensor.data_ptr(), tensor.dtype, shape, stride, lazily, version_of(tensor))


class _Reading:
    """Hands the chunks of tensors to a pool; tensors of one device share its engine's buffers."""

    def __init__(self, pool: ThreadPoolExecutor, threads: int, engine: Callable[[torch.device], CopyEngine]) -> None:
        self._pool = pool
        self._threads = threads
        self._engine = engine
        self._conveyors: dict[torch.device, Conveyor] = {}

    def start(self, tensor: Tensor) -> list[Future[bytes]]:
        """Return the digests of the tensor's chunks, in order, as they will be."""
        bits = words(tensor)
        memory = own_memory(bits)
        if memory is not None:
            # Long runs cost fewer hand-overs; several per thread keep all of them busy to the end.
            run = memory.nbytes // (CHUNK * self._threads * RUNS_PER_THREAD)
            return [self._submit(one) for one in runs(memory, max(1, run))]
        if tensor.device not in self._conveyors:
            self._conveyors[tensor.device] = Conveyor(self._engine(tensor.device), self._submit)
        return self._conveyors[tensor.device].send(bits)

    def _submit(self, run: memoryview) -> Future[bytes]:
        return self._pool.submit(leaves, run)


class WeightHasher:
    """Digests of seats of one model, on several threads; what several slots share is hashed once.

    Memory beside the model is bounded: contiguous CPU tensors are read where they lie, all others pass through the few
    buffers of a copy engine, one per device.

    Args:
        threads: Hashing threads; 0 takes one per core.
        engine: Returns what copies from a device.
    """

    def __init__(self, *, threads: int = 0, engine: Callable[[torch.device], CopyEngine] = engine_for) -> None:
        self.hashed = 0
        """Bytes that were hashed so far."""
        self._threads = threads or os.cpu_count() or 1
        self._engine = lru_cache(maxsize=None)(engine)  # buffers of a device are kept for the next seat
        # Each digest keeps its tensor alive, so that its place cannot be given to another.
        self._known: dict[_Place, tuple[Tensor, bytes]] = {}

    def digest(self, model: nn.Module, facts: SeatFacts) -> str:
        """Return the hex chunk-tree digest of a seat's slots, as the host stores them in memory.

        Raises:
            SpecError: the host lacks a tensor that the facts name.
            CertificateRefused: ``WEIGHTS_FORM``: a slot's tensor has no plain bytes.
        """
        held = {slot: _plain(model, facts, slot, ref) for slot, ref in facts.slots.items()}
        missing = {_Place.of(tensor): tensor for tensor in held.values() if _Place.of(tensor) not in self._known}
        with ThreadPoolExecutor(self._threads) as pool:
            reading = _Reading(pool, self._threads, self._engine)
            started = {place: reading.start(tensor) for place, tensor in missing.items()}
            for place, found in started.items():
                size = missing[place].numel() * missing[place].element_size()
                self._known[place] = missing[place], tensor_digest(size, (one.result() for one in found))
                self.hashed += size
        return seat_digest(
            SlotTree(slot, dtype_name(tensor.dtype), tuple(tensor.shape), self._known[_Place.of(tensor)][1])
            for slot, tensor in held.items()
        )


def weights_digest(model: nn.Module, facts: SeatFacts, *, threads: int = 0) -> str:
    """Return the hex chunk-tree digest of a seat's slots, as the host stores them in memory.

    Args:
        model: The host.
        facts: The seat.
        threads: Hashing threads; 0 takes one per core.

    Raises:
        SpecError: the host lacks a tensor that the facts name.
        CertificateRefused: ``WEIGHTS_FORM``: a slot's tensor has no plain bytes.
    """
    return WeightHasher(threads=threads).digest(model, facts)


def _plain(model: nn.Module, facts: SeatFacts, slot: str, ref: SlotRef) -> Tensor:
    tensor = _host_value(model, ref.tensor)
    if reason := obstacle(tensor):
        raise CertificateRefused(
            "WEIGHTS_FORM",
            f"slot {slot} ({ref.tensor}) of seat {facts.id} {reason}",
            hint="load the checkpoint that was certified, without converting, packing or distributing its weights",
        )
    return tensor.detach()
