"""Inputs ``x[..., D]`` with a condition ``cond[1, C]`` of the call: rows under one condition, few rows under others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from .rows import MOST_ROWS, OUTLIER, Case, row_cases


def _conditions(width: int, seed: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed + 1)
    plain = torch.randn(1, width, generator=generator).to(dtype)
    one_hot, outlier = torch.zeros_like(plain), plain.clone()
    one_hot[0, width // 3] = 1
    outlier[0, width // 2] *= OUTLIER
    return {
        "cond_zero": torch.zeros_like(plain),
        "cond_one_hot": one_hot,
        "cond_outlier": outlier,
        "cond_negative": -plain.abs(),
        # One unit in the last place: an implementation that looks conditions up must not take these two for one.
        "cond_next": torch.nextafter(plain, torch.full_like(plain, torch.inf)),
        "cond_plain": plain,
    }


def conditioned_cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield every row case of ``x[..., D]`` under one ``cond[1, C]``, then few rows under other conditions.

    Args:
        dims: Symbol to size; ``D`` and ``C`` are used.
        rows: Inclusive row band of the implementation.
        seed: The same seed gives the same bits.
        dtype: Boundary dtype.
        most_rows: Largest row count drawn.
    """
    conditions = _conditions(dims["C"], seed, dtype)
    count = min(max(rows[0], 1), most_rows)
    x = torch.randn(count, dims["D"], generator=torch.Generator().manual_seed(seed + 2)).to(dtype)
    for case in row_cases(dims["D"], rows, seed=seed, dtype=dtype, most_rows=most_rows):
        yield Case(case.name, {**case.inputs, "cond": conditions["cond_plain"]})
    for name, cond in conditions.items():
        yield Case(name, {"x": x, "cond": cond})
