"""Inputs ``x[..., K]`` that tell a right implementation from one that is right only for dense, well-scaled rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

MOST_ROWS = 1024
"""Row bands may be open-ended; an edge above this many rows is replaced by it."""
ODD_ROWS = 5
"""Rows of the layout and value cases where the band allows it: odd, and no multiple of a tile."""
OFFSETS = (1, 7)
"""Storage offsets in elements, neither aligned for any vector load: judged by value, where all 16 are only compared."""
OUTLIER = 20.0
"""Factor of the outlier channel, the size trained decoders show."""


class Case(NamedTuple):
    """One input of a structure.

    Attributes:
        name: Unique among the cases of one call.
        inputs: Boundary tensor name to tensor.
    """

    name: str
    inputs: dict[str, Tensor]


def edges(rows: tuple[int, int], most: int = MOST_ROWS) -> tuple[int, ...]:
    """Return 0 and the row counts on, just inside and just outside an inclusive band, without repeats.

    Args:
        rows: ``(lowest, highest)``.
        most: Largest row count returned.
    """
    low, high = rows
    around = {0, low - 1, low, low + 1, high - 1, high, high + 1}
    return tuple(sorted({min(count, most) for count in around if count >= 0}))


class _Draw:
    """Normal draws that depend on the seed and on nothing else."""

    def __init__(self, seed: int, dtype: torch.dtype) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._dtype = dtype

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self._generator, dtype=torch.float32).to(self._dtype)


def _layouts(draw: _Draw, m: int, width: int) -> Iterator[tuple[str, Tensor]]:
    yield "every_second_column", draw(m, 2 * width)[:, ::2]
    yield "every_second_row", draw(2 * m, width)[::2]
    yield "transposed", draw(width, m).t()
    yield "reversed_axes", draw(width, m, 1).permute(2, 1, 0)
    yield "one_row_expanded", draw(1, width).expand(m, width)
    for offset in OFFSETS:
        yield f"storage_offset_{offset}", draw(offset + m * width)[offset:].view(m, width)
    yield "batch_of_one", draw(1, m, width)
    yield "many_batches", draw(m, 1, width)


def _values(draw: _Draw, m: int, width: int) -> Iterator[tuple[str, Tensor]]:
    yield "all_zero", torch.zeros_like(draw(m, width))
    x = draw(m, width)
    x[0] = 0
    yield "first_row_zero", x
    x = draw(m, width)
    x[-1] = 0
    yield "last_row_zero", x
    x = draw(m, width)
    x[:, width // 2] *= OUTLIER
    yield "outlier_channel", x
    yield "channel_ramp", draw(m, width) * torch.logspace(-2, 2, width).to(x.dtype)
    yield "row_ramp", draw(m, width) * torch.logspace(-2, 2, m).to(x.dtype)[:, None]
    yield "zero_variance", draw(m, 1).expand(m, width).contiguous()
    yield "tiny", draw(m, width) * torch.finfo(x.dtype).tiny ** 0.5
    yield "denormal", torch.full_like(x, torch.finfo(x.dtype).tiny / 8)
    x = torch.zeros_like(x)
    x[torch.arange(m), torch.arange(m) * 7 % width] = 1
    yield "one_hot", x


def row_cases(
    width: int, rows: tuple[int, int], *, seed: int, dtype: torch.dtype, most_rows: int = MOST_ROWS
) -> Iterator[Case]:
    """Yield every case of an input ``x`` of the given width: band edges, memory layouts, values.

    Args:
        width: Size of the last axis.
        rows: Inclusive row band of the implementation.
        seed: The same seed gives the same bits.
        dtype: Floating dtype of ``x``.
        most_rows: Largest row count drawn.
    """
    draw = _Draw(seed, dtype)
    for count in edges(rows, most_rows):
        yield Case(f"rows_{count}", {"x": draw(count, width)})
    m = min(max(rows[0], ODD_ROWS), rows[1], most_rows)
    for name, x in (*_layouts(draw, m, width), *_values(draw, m, width)):
        yield Case(name, {"x": x})
