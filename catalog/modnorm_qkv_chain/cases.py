"""Discriminating inputs of ``modnorm_qkv_chain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.conditions import conditioned_cases  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.near import NearMiss  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, Case  # type: ignore[import-not-found]
from torch import Tensor


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


def _exchanged(tensor: Tensor) -> Tensor:
    """Return a slot of scale and shift with its halves exchanged."""
    return tensor.roll(tensor.shape[-1] // 2, -1)


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:  # noqa: ARG001 (the same in every variant)
    """Yield what a right-looking implementation may compute instead: scale and shift exchanged.

    Args:
        variant: Axis to value of the seat.
    """
    yield NearMiss("shift_before_scale", slots={"w_cond": _exchanged, "b_cond": _exchanged})
