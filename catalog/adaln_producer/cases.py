"""Discriminating inputs of ``adaln_producer``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.conditions import conditioned_cases  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.near import NearMiss  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, Case  # type: ignore[import-not-found]


def cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    variant: Mapping[str, str],  # noqa: ARG001 (every variant reads the same inputs)
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield named inputs ``x[..., D]`` and ``cond[1, C]``; see ``conditioned_cases``.

    Args:
        dims: Symbol to size; ``D`` and ``C`` are used.
        rows: Inclusive row band of the implementation.
        variant: Axis to value of the seat.
        seed: The same seed gives the same bits.
        dtype: Boundary dtype.
        most_rows: Largest row count drawn.
    """
    yield from conditioned_cases(dims, rows, seed=seed, dtype=dtype, most_rows=most_rows)


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:
    """Yield what a right-looking implementation may compute instead: the other norm, scale and shift exchanged.

    Args:
        variant: Axis to value of the seat.
    """
    yield NearMiss("other_norm", keywords={"norm": "layer" if variant["norm"] == "rms" else "rms"})
    yield NearMiss("shift_before_scale", keywords={"style": variant["style"].replace("scale_shift", "shift_scale")})
