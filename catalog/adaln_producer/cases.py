"""Discriminating inputs of ``adaln_producer``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.near import NearMiss  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, OUTLIER, Case, row_cases  # type: ignore[import-not-found]
from torch import Tensor


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


def cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    variant: Mapping[str, str],  # noqa: ARG001 (every variant reads the same inputs)
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield named inputs ``x[..., D]`` and ``cond[1, C]``: every row case under one condition, few rows under others.

    Args:
        dims: Symbol to size; ``D`` and ``C`` are used.
        rows: Inclusive row band of the implementation.
        variant: Axis to value of the seat.
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


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:
    """Yield what a right-looking implementation may compute instead: the other norm, scale and shift exchanged.

    Args:
        variant: Axis to value of the seat.
    """
    yield NearMiss("other_norm", keywords={"norm": "layer" if variant["norm"] == "rms" else "rms"})
    yield NearMiss("shift_before_scale", keywords={"style": variant["style"].replace("scale_shift", "shift_scale")})
