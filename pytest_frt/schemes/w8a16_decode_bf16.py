"""As ``w8a16_decode`` between bfloat16 boundaries: sums are scaled in float32 and leave every matmul as bfloat16."""

from __future__ import annotations

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import bfloat16_product
from pytest_frt.schemes.w8a16_decode import activation, weight

SCHEME = Scheme(
    name="w8a16_decode_bf16",
    summary="int8 weights per output channel, bfloat16 boundaries and matmul outputs, for 1 to 8 rows.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="none",
    per_call=False,
    format_max=0.0,
    percentile=100.0,
    products=(bfloat16_product,),
    leaves=bfloat16_product,
    limits=SeamLimits(
        reference_factor=2.0,
        floor=0.004,
        slope=0.002,
        rel_l2=0.004,
        row_rel_l2=0.008,
        max_abs=0.1,
        outliers=0.0,
        because="one step of a number that rules a row: docs/adr/0014-between-bfloat16.md#int8-weights",
    ),
)
