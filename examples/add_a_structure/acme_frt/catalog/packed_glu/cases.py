"""Discriminating inputs of ``packed_glu``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.near import NearMiss  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, Case, row_cases  # type: ignore[import-not-found]
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


def _halves_exchanged(w: Tensor) -> Tensor:
    """Return ``[2F, D]`` with the rows of up where those of the gate were: the activation meets the other half."""
    return w.roll(w.shape[0] // 2, dims=0)


def _interleaved(w: Tensor) -> Tensor:
    """Return ``[2F, D]`` read as gate, up, gate, up: how some formats pack the two."""
    return torch.cat([w[0::2], w[1::2]])


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:
    """Yield what a right-looking implementation may compute instead: another packing, another activation.

    Args:
        variant: Axis to value of the seat.
    """
    yield NearMiss("halves_exchanged", slots={"w_gate_up": _halves_exchanged})
    yield NearMiss("interleaved", slots={"w_gate_up": _interleaved})
    if variant["activation"] == "gelu_erf":
        yield NearMiss("gelu_tanh", keywords={"activation": "gelu_tanh"})
        yield NearMiss("quick_gelu", keywords={"activation": "quick_gelu"})
