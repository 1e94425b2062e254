"""int8 weights per output channel, bfloat16 activations; each matmul sums in float32 and leaves as bfloat16.

The taps of a reference sit at the inputs of its matmuls, so the fake-quantised reference rounds those to bfloat16.
It does not round their outputs: that error, one half unit in the last of 8 places per matmul, is part of the limits.
Where near misses are told apart, ``products`` take it out: it is ten times as large as what they differ by.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import INT8_MAX, as_bfloat16, bfloat16_product, int8_channels


def weight(w: Tensor, out_axis: int) -> Tensor:
    """Round each output channel to int8 with scale ``amax / 127``, half to even."""
    return int8_channels(w, out_axis)


def activation(x: Tensor, scale: float | None) -> Tensor:  # noqa: ARG001 (bfloat16 needs no scale)
    """Round the float32 value to bfloat16, half to even."""
    return as_bfloat16(x)


def coded_product(y: Tensor, w: Tensor) -> Tensor:
    """Round the sums over codes to bfloat16 and scale what left: the largest code of a channel is 127."""
    scale = w.abs().amax(0) / INT8_MAX
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return as_bfloat16(y / scale) * scale


SCHEME = Scheme(
    name="w8a16_decode",
    summary="int8 weights per output channel, bfloat16 activations and matmul outputs, for 1 to 8 rows.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="none",
    per_call=False,
    format_max=0.0,
    percentile=100.0,
    products=(coded_product, bfloat16_product),  # scaled behind the rounding, or before it
    limits=SeamLimits(
        reference_factor=2.0,
        floor=0.012,
        slope=0.007,
        rel_l2=0.012,
        row_rel_l2=0.02,
        max_abs=0.4,
        outliers=0.0,
        because="bfloat16 matmul outputs: docs/adr/0003-seam-limits.md#bfloat16-outputs",
    ),
)
