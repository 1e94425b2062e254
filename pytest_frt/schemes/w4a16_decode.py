"""int4 weights in groups of 32, bfloat16 activations; each matmul sums in float32 and leaves as bfloat16.

A group has one scale and one zero point, both bfloat16, and lies along the inputs of one output channel. As in
``w8a16_decode`` no tap sits where matmuls leave, so that rounding is part of the limits and stated in ``products``.
"""

from __future__ import annotations

from torch import Tensor

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import as_bfloat16, bfloat16_product, int4_groups


def weight(w: Tensor, out_axis: int) -> Tensor:
    """Round each group of 32 inputs of an output channel to 16 levels with a zero point."""
    return int4_groups(w, out_axis)


def activation(x: Tensor, scale: float | None) -> Tensor:  # noqa: ARG001 (bfloat16 needs no scale)
    """Round the float32 value to bfloat16, half to even."""
    return as_bfloat16(x)


SCHEME = Scheme(
    name="w4a16_decode",
    summary="int4 weights in groups of 32 with zero points, bfloat16 activations and matmul outputs, for 1 to 8 rows.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="none",
    per_call=False,
    format_max=0.0,
    percentile=100.0,
    products=(bfloat16_product,),
    limits=SeamLimits(
        reference_factor=2.0,
        floor=0.012,
        slope=0.007,
        rel_l2=0.012,
        row_rel_l2=0.02,
        max_abs=0.4,
        outliers=0.0,
        because="bfloat16 matmul outputs: docs/adr/0010-schemes-and-seats.md#int4-in-groups",
    ),
)
