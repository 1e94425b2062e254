"""int8 weights per output channel; each call quantises its activations to 7 bits over their own range.

One scale and one zero point serve the whole tensor of a call, so a row's result depends on the rows beside it.
Seven bits and not eight: sums of two products then fit the 16-bit steps of machines without VNNI.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.schemes._formats import int8_channels

CODE_MAX: Final = 127
# Below this scale torch's quantiser stops following the range; it is a float32 constant of ATen's QuantUtils.h.
SMALLEST_SCALE: Final = torch.tensor(6.1e-5).item()
# The scale that torch's quantiser takes for a tensor of zeros, and when the scale or its reciprocal leaves float32.
FALLBACK_SCALE: Final = 0.1


def weight(w: Tensor, out_axis: int) -> Tensor:
    """Round each output channel to int8 with scale ``amax / 127``, half to even."""
    return int8_channels(w, out_axis)


def _float32(value: float) -> float:
    return torch.tensor(value, dtype=torch.float32).item()


def parameters(low: float, high: float) -> tuple[float, int]:
    """Return the float32 scale and the zero point that cover ``[low, high]`` and zero with codes 0..127.

    Source: ``ChooseQuantizationParams`` of ATen, for an affine unsigned format with reduced range.

    Args:
        low: Smallest activation, a float32 number.
        high: Largest activation, a float32 number.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / CODE_MAX
    rounded = _float32(scale)
    if rounded == 0.0 or math.isinf(_float32(1.0 / rounded)):
        scale = FALLBACK_SCALE
    if scale < SMALLEST_SCALE:
        grow = SMALLEST_SCALE / _float32(scale)
        low, high, scale = _float32(low * grow), _float32(high * grow), SMALLEST_SCALE
    from_low, from_high = -low / scale, CODE_MAX - high / scale
    exact = from_low if -abs(low / scale) < CODE_MAX - abs(high / scale) else from_high
    return _float32(scale), min(max(round(exact), 0), CODE_MAX)


def activation(x: Tensor, scale: float | None) -> Tensor:  # noqa: ARG001 (the scale is the call's own)
    """Quantise to codes 0..127 over the range of ``x`` and back; NaN everywhere if ``x`` is not finite."""
    x32 = x.float()
    if x.numel() == 0:
        return x
    if not x32.isfinite().all():
        return torch.full_like(x, math.nan)
    step, zero = parameters(x32.min().item(), x32.max().item())
    inverse = torch.tensor(step).reciprocal()
    # The kernel multiplies and adds in one step with one rounding, then rounds half to even.
    codes = (x32.double() * inverse.double() + zero).float().round().clamp(0, CODE_MAX)
    return ((codes.double() - zero) * step).to(x.dtype)


SCHEME = Scheme(
    name="w8a8_dynamic",
    summary="int8 weights per output channel, activations in 7 bits over the range of each call.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="none",
    format_max=0.0,
    percentile=100.0,
    limits=SeamLimits(
        reference_factor=2.0,
        floor=0.008,
        slope=0.002,
        rel_l2=0.008,
        row_rel_l2=0.03,
        max_abs=0.1,
        outliers=0.0,
        because="flipped codes: docs/adr/0003-seam-limits.md#flipped-codes",
    ),
)
