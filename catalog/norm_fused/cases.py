"""Discriminating inputs of ``norm_fused``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from pytest_frt.catalog._shared.near import NearMiss  # type: ignore[import-not-found]
from pytest_frt.catalog._shared.rows import MOST_ROWS, ODD_ROWS, Case, row_cases  # type: ignore[import-not-found]
from torch import Tensor

FAR_MEAN = 100.0
"""Mean in standard deviations. float32 sums of squares lose the variance there, sums of squared distances do not."""
SMALLEST = -8
"""Power of ten of the smallest rows: below the root of every epsilon in use, 1e-12 to 1e-3."""


def cases(
    dims: Mapping[str, int],
    rows: tuple[int, int],
    variant: Mapping[str, str],  # noqa: ARG001 (every variant reads the same inputs)
    *,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    most_rows: int = MOST_ROWS,
) -> Iterator[Case]:
    """Yield named inputs ``x[..., D]``: see ``row_cases``; rows far from zero, and rows about as small as an epsilon.

    Args:
        dims: Symbol to size; ``D`` is used.
        rows: Inclusive row band of the implementation.
        variant: Axis to value of the seat.
        seed: The same seed gives the same bits.
        dtype: Boundary dtype.
        most_rows: Largest row count drawn.
    """
    yield from row_cases(dims["D"], rows, seed=seed, dtype=dtype, most_rows=most_rows)
    m = min(max(rows[0], ODD_ROWS), rows[1], most_rows)
    x = torch.randn(m, dims["D"], generator=torch.Generator().manual_seed(seed))
    yield Case("far_from_zero", {"x": (x + FAR_MEAN).to(dtype)})
    yield Case("far_below_zero", {"x": (x - FAR_MEAN).to(dtype)})
    yield Case("row_ramp_to_epsilon", {"x": (x * torch.logspace(SMALLEST, 0, m)[:, None]).to(dtype)})
    one = torch.ones_like(x)
    one[:, 0] = 2.0
    yield Case("one_element_differs", {"x": one.to(dtype)})


def near_misses(variant: Mapping[str, str]) -> Iterator[NearMiss]:  # noqa: ARG001 (there is one variant)
    """Yield what a right-looking implementation may compute instead: a slot left out, or D - 1 terms for D.

    Args:
        variant: Axis to value of the seat.
    """
    yield NearMiss("scale_left_out", slots={"w": torch.ones_like})
    yield NearMiss("shift_left_out", slots={"b": torch.zeros_like})
    yield NearMiss("sample_variance", slots={"w": _of_sample_variance})


def _of_sample_variance(w: Tensor) -> Tensor:
    """Return ``w[D]`` times what dividing by D - 1 makes of a row whose variance is large beside the epsilon."""
    gain: float = (1.0 - 1.0 / max(w.numel(), 2)) ** 0.5
    return w * gain
