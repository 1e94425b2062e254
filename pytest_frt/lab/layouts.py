"""The same values handed over in other memory: what a part may neither read beyond, write beyond, nor be misled by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from pytest_frt.measure.blocks import TOTAL_ERROR, relative

OFFSETS: Final = range(16)
"""Storage offsets in elements: every alignment of a load of up to 64 bytes, in four-byte elements."""
FEW: Final = frozenset({"storage_offset_1", "every_second_column", "transposed"})
"""Layouts of a wide seat: no vector load is aligned, no row and no element follows the one before."""
WIDE: Final = 1 << 16
"""Outputs of a seat from which few layouts are compared: a vocabulary head reads all of its weight in every call."""
FENCE: Final = 64
"""Elements of NaN behind the values: as much as one wide load could read too far."""
SLICED_FROM: Final = 3
"""First column of the slice out of a wider tensor: odd, so that rows of any width start unaligned."""


@dataclass(frozen=True, slots=True)
class Laid:
    """One layout of some values.

    Attributes:
        name: Its name.
        x: A view ``[..., K]`` of ``storage``.
        storage: All of the memory, with NaN wherever ``x`` has no element.
        twin: Equal values in contiguous memory of their own, in the shape of ``x``.
    """

    name: str
    x: Tensor
    storage: Tensor
    twin: Tensor

    @property
    def values(self) -> str:
        """Name of the values: layouts with equal twins share it."""
        return self.name if 0 in self.x.stride() else str(tuple(self.x.shape))


def _laid(name: str, values: Tensor, strides: tuple[int, ...], offset: int = 0) -> Laid:
    """Place ``values`` at ``offset`` with ``strides``, amid NaN."""
    last = sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    storage = torch.full((offset + last + 1 + FENCE,), torch.nan, dtype=values.dtype, device=values.device)
    x = storage.as_strided(values.shape, strides, offset)
    x.copy_(values)
    return Laid(name, x, storage, values)


def _expanded(name: str, values: Tensor, shape: torch.Size) -> Laid:
    """Expand axes of size 1 with stride 0."""
    one = _laid(name, values, values.stride())
    return Laid(name, one.x.expand(shape), one.storage, values.expand(shape).contiguous())


def layouts(x: Tensor) -> Iterator[Laid]:
    """Yield the values of ``x[m, K]`` in every layout that a host may call with.

    Args:
        x: At least one row, contiguous, of a floating dtype.
    """
    m, width = x.shape
    for offset in OFFSETS:
        yield _laid(f"storage_offset_{offset}", x, (width, 1), offset)
    yield _laid("every_second_column", x, (2 * width, 2))
    yield _laid("every_second_row", x, (2 * width, 1))
    yield _laid("sliced_columns", x, (width + 2 * SLICED_FROM, 1), SLICED_FROM)
    yield _laid("transposed", x, (1, m))
    yield _laid("transposed_batch", x.view(1, m, width), (m, 1, m))
    yield _laid("every_second_batch", x.view(m, 1, width), (2 * width, width, 1))
    yield _expanded("one_row_expanded", x[:1], x.shape)
    yield _expanded("one_column_expanded", x[:, :1].contiguous(), x.shape)


def misplaced(x: Tensor, outputs: tuple[Tensor, ...]) -> str:
    """Say what is wrong with the memory behind the outputs of a call on ``x``; empty when nothing is.

    Every element needs an address of its own, in memory that is not the input's and holds nothing but outputs: a host
    may write into what a layer returns, and what lies behind an output was never judged.
    """
    full = [output for output in outputs if output.numel()]
    if x.numel() and x.untyped_storage().data_ptr() in map(_address, full):
        return "an output lies in the input's memory"
    if all(map(_fills_its_memory, full)) and len(set(map(_address, full))) == len(full):
        return ""
    for address in set(map(_address, full)):
        sharing = [output for output in full if _address(output) == address]
        held = sharing[0].untyped_storage().nbytes() // sharing[0].element_size()
        used = torch.cat([_offsets(output, held) for output in sharing]).sort().values
        if bool((used.diff() == 0).any()):
            return "two elements of the outputs lie at one address"
        if len(used) < held:
            return f"outputs of {len(used)} elements hold on to memory of {held}"
    return ""


def _address(output: Tensor) -> int:
    return output.untyped_storage().data_ptr()


def _offsets(output: Tensor, held: int) -> Tensor:
    """Return where in its storage of ``held`` elements each element of an output lies."""
    every = torch.arange(held, device=output.device)
    return every.as_strided(output.shape, output.stride(), output.storage_offset()).flatten()


def _fills_its_memory(output: Tensor) -> bool:
    return output.is_contiguous() and output.untyped_storage().nbytes() == output.numel() * output.element_size()


def difference(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> float:
    """Return the largest relative L2 difference between two calls' outputs; ``TOTAL_ERROR`` with a NaN or Inf in one.

    Args:
        left: Judged against ``right``; another shape is a total error too.
        right: Sets the scale.
    """
    worst = 0.0
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape:
            return TOTAL_ERROR
        wide, scale = a.double(), b.double()
        both = torch.isfinite(wide) & torch.isfinite(scale)
        if not bool((both | (wide.isnan() & scale.isnan())).all()):
            return TOTAL_ERROR
        zero = torch.zeros((), dtype=torch.float64, device=a.device)
        error, norm = torch.where(both, wide - scale, zero).norm(), torch.where(both, scale, zero).norm()
        worst = max(worst, relative(float(error), float(norm)))
    return worst
