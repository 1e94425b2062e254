"""The bytes of a tensor: which tensors have plain ones, and how to walk through those that are not contiguous.

Nothing here copies a whole tensor. A tensor that lies contiguously on the CPU gives its own memory; any other is cut
into blocks, each a few views that together hold the block's elements in order.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor, nn

from pytest_frt.seat.tree import dtype_name

BLOCK: Final = 8 << 20
"""Bytes of one block: whole chunks of the digest, and long enough for a copy from a device to run at full speed."""

_WORDS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PLAIN_NAMES: Final = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip
PLAIN_DTYPES: Final = frozenset(getattr(torch, name) for name in _PLAIN_NAMES if hasattr(torch, name))
_PLAIN_TYPES: Final = (Tensor, nn.Parameter, nn.Buffer)


def obstacle(tensor: Tensor) -> str:
    """Return why a tensor has no plain bytes that a digest could bind; empty when it has."""
    # An exact type, since a subclass decides itself what its elements are (packed, distributed, quantised).
    if type(tensor) not in _PLAIN_TYPES:
        return f"is a {type(tensor).__name__}, not a plain tensor"
    if tensor.layout is not torch.strided:
        return f"has layout {str(tensor.layout).removeprefix('torch.')}, not strided"
    if tensor.is_meta:
        return "is on the meta device and holds no values"
    if tensor.is_quantized or tensor.dtype not in PLAIN_DTYPES:
        return f"has dtype {dtype_name(tensor.dtype)}, whose elements are no plain bytes"
    if sys.byteorder != "little":
        return "is stored big-endian here; digests are over little-endian bytes"
    return ""


def words(tensor: Tensor) -> Tensor:
    """Return a plain tensor as integers of the width of its elements (complex ones as two reals): same bytes.

    The result shares memory with ``tensor``, save for lazily conjugated or negated ones.
    """
    solid = tensor.detach().resolve_conj().resolve_neg()
    if solid.is_complex():
        solid = torch.view_as_real(solid)
    return solid.view(_WORDS[solid.element_size()])


def own_memory(bits: Tensor) -> memoryview | None:
    """Return the memory of what :func:`words` returned, when its elements lie there in order; else None."""
    if bits.device.type != "cpu" or not bits.is_contiguous():
        return None
    if not bits.numel():
        return memoryview(b"")
    return bits.reshape(-1).view(torch.uint8).numpy().data


def blocks(bits: Tensor, size: int = BLOCK) -> Iterator[list[Tensor]]:
    """Yield, per block of ``size`` bytes, the views that hold its elements in order. The last block may be shorter.

    Args:
        bits: A tensor of any strides.
        size: Bytes per block, a multiple of the element size.
    """
    per_block = size // bits.element_size()
    total = bits.numel()
    for start in range(0, total, per_block):
        yield list(_span(bits, start, min(start + per_block, total)))


def _span(bits: Tensor, start: int, stop: int) -> Iterator[Tensor]:
    """Yield views of the elements from ``start`` up to ``stop`` in row-major order, at most two per axis."""
    if start >= stop:
        return
    if bits.dim() <= 1:
        yield bits.reshape(-1)[start:stop]
        return
    row = math.prod(bits.shape[1:])
    first, head = divmod(start, row)
    last, tail = divmod(stop, row)
    if head and first == last:
        yield from _span(bits[first], head, tail)
        return
    if head:
        yield from _span(bits[first], head, row)
        first += 1
    if first < last:
        yield bits[first:last]
    if tail:
        yield from _span(bits[last], 0, tail)
