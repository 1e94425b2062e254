"""Slot tensors of a seat, as views of the host's, and their digest."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.errors import SpecError
from pytest_frt.spec.weights_digest import SlotBytes, slots_digest


def host_tensor(model: nn.Module, name: str) -> Tensor:
    """Return a parameter or buffer of the host by dotted name, detached.

    Raises:
        SpecError: the host has no such tensor.
    """
    parent, _, leaf = name.rpartition(".")
    try:
        tensor = getattr(model.get_submodule(parent), leaf)
    except AttributeError as fault:
        raise SpecError(f"the host has no tensor {name!r}: {fault}", hint="discover its seats again") from fault
    if not isinstance(tensor, Tensor):
        raise SpecError(f"{name!r} of the host is {type(tensor).__name__}, no tensor", hint="discover its seats again")
    return tensor.detach()


def slot_tensors(model: nn.Module, facts: SeatFacts) -> dict[str, Tensor]:
    """Return slot name to tensor in the layout of structure.yaml.

    The tensors are views of the host's own, not to be written to; a transposed slot is a non-contiguous view.

    Raises:
        SpecError: the host lacks a tensor that the facts name.
    """
    out = {}
    for slot, ref in facts.slots.items():
        tensor = host_tensor(model, ref.tensor)
        out[slot] = tensor.t() if ref.transpose else tensor
    return out


def _slot_bytes(name: str, tensor: Tensor) -> SlotBytes:
    flat = tensor.contiguous().reshape(-1).cpu()
    data = flat.view(torch.uint8).numpy().data if flat.numel() else memoryview(b"")
    return SlotBytes(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), data)


def weights_digest(model: nn.Module, facts: SeatFacts, *, threads: int = 0) -> str:
    """Return the hex chunk-tree digest of a seat's slots, as the host stores them in memory.

    Args:
        model: The host.
        facts: The seat.
        threads: Hashing threads; 0 takes one per core.

    Raises:
        SpecError: the host lacks a tensor that the facts name.
    """
    slots = (_slot_bytes(slot, host_tensor(model, ref.tensor)) for slot, ref in facts.slots.items())
    return slots_digest(slots, threads=threads)
