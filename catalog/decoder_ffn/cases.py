"""Discriminating inputs of ``decoder_ffn``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.near import NearMiss, shifted_in_bfloat16  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, Case, row_cases  # type: ignore[import-not-found]


def cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    variant: Mapping[str, str],  # noqa: ARG001 (every variant reads the same inputs)
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield named inputs ``x[..., D]``; see ``row_cases``.

    Args:
        dims: Symbol to size; ``D`` is used.
        rows: Inclusive row band of the implementation.
        variant: Axis to value of the seat.
        seed: The same seed gives the same bits.
        dtype: Boundary dtype.
        most_rows: Largest row count drawn.
    """
    yield from row_cases(dims["D"], rows, seed=seed, dtype=dtype, most_rows=most_rows)


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:
    """Yield what a right-looking implementation may compute instead: other forms of GELU, a norm shifted in 16 bits.

    Args:
        variant: Axis to value of the seat.
    """
    if variant["activation"] == "gelu_tanh":
        yield NearMiss("gelu_erf", keywords={"activation": "gelu_erf"})
        yield NearMiss("quick_gelu", keywords={"activation": "quick_gelu"})
    if variant["norm"] == "offset":
        yield NearMiss("one_added_in_bfloat16", slots={"w_norm": shifted_in_bfloat16})
