"""As ``fp8_static`` between bfloat16 boundaries: every matmul leaves as bfloat16, and weight scales are powers of two.

Published FP8 kernels hand bfloat16 from matmul to matmul and take one weight scale for slots that are merged. A power
of two per slot moves no rounding, neither of codes nor of bfloat16: merged slots keep what they have alone, and the
ratio of their scales is taken out exactly.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from pytest_frt.contracts.scheme import Ceiling, Scheme, SeamLimits
from pytest_frt.schemes._formats import E4M3_MAX, bfloat16_product, e4m3
from pytest_frt.schemes.fp8_static import FORMAT_MAX, activation

LEAST: Final = torch.finfo(torch.float32).tiny
"""A smaller scale has no reciprocal to multiply by."""


def weight(w: Tensor, out_axis: int) -> Tensor:  # noqa: ARG001 (one scale serves the slot)
    """Round to e4m3 with the least power of two that ``amax / 448`` does not exceed; a weight of zeros has scale 1."""
    quotient = w.float().abs().amax() / E4M3_MAX
    quotient = torch.where(quotient == 0, torch.ones_like(quotient), quotient.clamp(min=LEAST))
    mantissa, exponent = torch.frexp(quotient)
    scale = torch.ldexp(torch.ones_like(mantissa), torch.where(mantissa == 0.5, exponent - 1, exponent))  # noqa: PLR2004
    return e4m3(w, scale)


SCHEME = Scheme(
    name="fp8_static_bf16",
    summary="e4m3 weights and activations, static scales, bfloat16 boundaries and matmul outputs.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="amax",
    per_call=False,
    format_max=FORMAT_MAX,
    percentile=100.0,
    products=(bfloat16_product,),
    leaves=bfloat16_product,
    ceiling=Ceiling(20.0, keeps_host=False, because="docs/adr/0010-schemes-and-seats.md#the-ceiling"),
    limits=SeamLimits(
        reference_factor=2.0,
        floor=0.006,
        slope=0.008,
        rel_l2=0.03,
        row_rel_l2=0.1,
        max_abs=0.5,
        outliers=0.001,
        because="sums that units round apart: docs/adr/0014-between-bfloat16.md#fp8",
    ),
)
