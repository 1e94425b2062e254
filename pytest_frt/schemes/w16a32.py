"""float16 weights, float32 activations and sums."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import as_float32

FP16_MAX: Final = 65504.0


def weight(w: Tensor, out_axis: int) -> Tensor:  # noqa: ARG001 (channels play no part)
    """Round to float16, half to even, subnormal numbers included; larger ones become +-65504, as packing does."""
    return w.clamp(-FP16_MAX, FP16_MAX).half().to(w.dtype)


def activation(x: Tensor, scale: float | None) -> Tensor:  # noqa: ARG001 (float32 needs no scale)
    """Round to float32."""
    return as_float32(x)


SCHEME = Scheme(
    name="w16a32",
    summary="float16 weights, float32 activations and sums.",
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
