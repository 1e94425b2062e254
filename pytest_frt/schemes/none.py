"""float32 throughout: nothing is quantised, so an implementation may differ by the order of its sums alone."""

from __future__ import annotations

from torch import Tensor

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import as_float32


def weight(w: Tensor, out_axis: int) -> Tensor:  # noqa: ARG001 (channels play no part)
    """Keep the weight."""
    return w


def activation(x: Tensor, scale: float | None) -> Tensor:  # noqa: ARG001 (float32 needs no scale)
    """Round to float32."""
    return as_float32(x)


SCHEME = Scheme(
    name="none",
    summary="float32 weights and activations.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="none",
    per_call=False,
    format_max=0.0,
    percentile=100.0,
    limits=SeamLimits(
        reference_factor=2.0,
        floor=2e-5,
        slope=0.002,
        rel_l2=2e-5,
        row_rel_l2=5e-5,
        max_abs=3e-4,
        outliers=0.0,
        because="summation order alone: docs/adr/0003-seam-limits.md#float32-and-float16-weights",
    ),
)
