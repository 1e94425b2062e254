"""Packed weights by integer handle: a graph can carry an integer, but neither a ScriptObject nor an opaque tensor."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import dataclass
from typing import Final, TypeVar

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Plain:
    """Merged float32 weight [N, K] and bias [N]."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class Fp32Packed:
    """oneDNN's blocked float32 weight and bias [N]."""

    pack: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class Fp16Packed:
    """FBGEMM's float16 weight in packs of consecutive output channels; the bias lives inside."""

    packs: tuple[torch.ScriptObject, ...]


@dataclass(frozen=True, slots=True)
class DynamicInt8:
    """FBGEMM's int8 weight; scales and bias live inside."""

    pack: torch.ScriptObject


@dataclass(frozen=True, slots=True)
class WeightInt8:
    """Codes int8 [N, K], their float32 scale [N], bfloat16 ones [N] that the op wants as its own scale, bias [N]."""

    codes: Tensor
    scale: Tensor
    ones: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class StaticFp8:
    """Codes e4m3 [K, N] (a transposed view), scale [N], input scale, its reciprocal, one (all float32), bias [N]."""

    codes: Tensor
    scale: Tensor
    input_scale: Tensor
    input_inverse: Tensor
    one: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class Table:
    """Merged float32 weight [N, K] and bias [N]; up to ``rows`` inputs [1, K], by their bytes, with their outputs."""

    weight: Tensor
    bias: Tensor | None
    rows: int
    found: dict[bytes, Tensor]


@dataclass(frozen=True, slots=True)
class Kept:
    """Merged float32 weight [N, K] and bias [N]; the last input [..., K], a :func:`twin` of it, with its output.

    A thread replaces ``last`` whole and writes to neither tensor again, so that no other thread reads half of it.
    """

    weight: Tensor
    bias: Tensor | None
    last: list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class GroupInt4:
    """The op's packed codes, bfloat16 scales and zero points [K / 32, N, 2] over float32 ``channel`` [N], bias [N]."""

    pack: Tensor
    scales_and_zeros: Tensor
    channel: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class Bf16:
    """Merged bfloat16 weight [N, K] and float32 bias [N]."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, slots=True)
class Norm:
    """Scale [D], shift [D] (float32) and epsilon of a layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float


Held = Plain | Fp32Packed | Fp16Packed | DynamicInt8 | WeightInt8 | StaticFp8 | GroupInt4 | Bf16 | Norm | Table | Kept
Kind = TypeVar(
    "Kind", Plain, Fp32Packed, Fp16Packed, DynamicInt8, WeightInt8, StaticFp8, GroupInt4, Bf16, Norm, Table, Kept
)

_TABLE: Final[dict[int, Held]] = {}
# Numbers are never used twice: a graph compiled over a freed layer must fail, not read another layer's weights.
_NUMBERS: Final = itertools.count(1)


LINE: Final = 64
"""Bytes: two addresses with one remainder by it are aligned alike for every load."""


def twin(tensor: Tensor) -> Tensor:
    """Copy a tensor to memory that is aligned and, where it has no gaps, laid out as its own.

    By both a matmul chooses the order in which it sums: only a twin has the bits of the original's product.
    """
    room = torch.empty(tensor.numel() + LINE // tensor.element_size(), dtype=tensor.dtype)
    first = (tensor.data_ptr() - room.data_ptr()) % LINE // tensor.element_size()
    return room.as_strided(tensor.shape, torch.empty_like(tensor).stride(), first).copy_(tensor)


def keep(owner: object, held: Held) -> int:
    """Hold packed weights for as long as ``owner`` lives and return their handle."""
    handle = next(_NUMBERS)
    _TABLE[handle] = held
    weakref.finalize(owner, _TABLE.pop, handle, None).atexit = False
    return handle


def take(handle: int, kind: type[Kind]) -> Kind:
    """Return the weights behind a handle.

    Raises:
        RuntimeError: the layer that owned the handle is gone, or the handle belongs to another op.
    """
    held = _TABLE.get(handle)
    if type(held) is not kind:
        found = "nothing: its layer was freed" if held is None else type(held).__name__
        raise RuntimeError(f"handle {handle} holds {found}, the op needs {kind.__name__}")
    return held
