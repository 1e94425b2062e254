"""Discriminating inputs of ``cadence_static``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.rows import MOST_ROWS, ODD_ROWS, Case, row_cases  # type: ignore[import-not-found]


def _one_after_another(width: int, rows: int, seed: int, dtype: torch.dtype) -> Iterator[Case]:
    """Yield inputs of one shape that a memory may take for the one before: by a few rows, a sum or a shape."""
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed + 1)).to(dtype)
    other = x.clone()
    other[-1, -1] = -other[-1, -1]
    yield Case("met_first", {"x": x})
    yield Case("met_again", {"x": x.clone()})
    yield Case("one_bit_changed", {"x": other})
    yield Case("rows_reversed", {"x": other.flip(0)})
    yield Case("all_negated", {"x": -other.flip(0)})
    yield Case("met_once_more", {"x": x.clone()})


def cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    variant: Mapping[str, str],  # noqa: ARG001 (every variant reads the same inputs)
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield named inputs ``x[..., K]``: every row case, then inputs that differ by little from the one before.

    Args:
        dims: Symbol to size; ``K`` is used.
        rows: Inclusive row band of the implementation.
        variant: Axis to value of the seat.
        seed: The same seed gives the same bits.
        dtype: Boundary dtype.
        most_rows: Largest row count drawn.
    """
    yield from row_cases(dims["K"], rows, seed=seed, dtype=dtype, most_rows=most_rows)
    yield from _one_after_another(dims["K"], min(max(rows[0], ODD_ROWS), rows[1], most_rows), seed, dtype)
