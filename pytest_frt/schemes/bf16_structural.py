"""bfloat16 weights, activations and outputs of one op; all other seats stay with the host.

The scheme buys structure, not bits: one matmul in the place of three, or one op in that of a norm or of the projection
of patches. Of the shipped impls only those run it. Some machines that multiply bfloat16 numbers take subnormal ones for
zero: so does the scheme, and a part that runs it says so on every machine.
"""

from __future__ import annotations

from torch import Tensor

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import bfloat16_product, normal_bfloat16


def weight(w: Tensor, out_axis: int) -> Tensor:  # noqa: ARG001 (channels play no part)
    """Round to bfloat16, half to even; subnormal numbers become zero."""
    return normal_bfloat16(w)


def activation(x: Tensor, scale: float | None) -> Tensor:  # noqa: ARG001 (bfloat16 needs no scale)
    """Round the float32 value to bfloat16, half to even; subnormal numbers become zero."""
    return normal_bfloat16(x)


SCHEME = Scheme(
    name="bf16_structural",
    summary="Sibling projections, norms and patches each as one op in bfloat16; everything else stays with the host.",
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
        floor=0.006,
        slope=0.005,
        rel_l2=0.006,
        row_rel_l2=0.008,
        max_abs=0.2,
        outliers=0.0,
        because="one bfloat16 matmul output: docs/adr/0010-schemes-and-seats.md#one-bfloat16-matmul",
    ),
)
