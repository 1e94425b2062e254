"""Number formats that several schemes share. Each returns what the format keeps, in the dtype it was given."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

BFLOAT16_TINY: Final = 2.0**-126
INT8_MAX: Final = 127
INT4_GROUP: Final = 32
INT4_TOP: Final = 15
INT4_ZERO_CODE: Final = 8
E4M3_MAX: Final = 448.0


def as_float32(x: Tensor) -> Tensor:
    """Round to the nearest float32 number; what is smaller than its range becomes zero."""
    return x.float().to(x.dtype)


def as_bfloat16(x: Tensor) -> Tensor:
    """Round the float32 value to bfloat16, half to even."""
    return as_float32(x).bfloat16().to(x.dtype)


def normal_bfloat16(x: Tensor) -> Tensor:
    """Round to bfloat16 as :func:`as_bfloat16`, and to zero what is then subnormal; NaN stays NaN."""
    rounded = as_bfloat16(x)
    return torch.where(rounded.abs() < BFLOAT16_TINY, torch.zeros_like(rounded), rounded)


def bfloat16_product(y: Tensor, w: Tensor) -> Tensor:  # noqa: ARG001 (the product holds what a scheme does to weights)
    """Round a matmul's output to bfloat16, half to even: sums in float32 that leave once."""
    return as_bfloat16(y)


def int8_channels(w: Tensor, out_axis: int) -> Tensor:
    """Round each output channel to 255 evenly spaced numbers: ``amax / 127`` times -127..127, half to even.

    The scale and the quotient are float32, as a pack computes them; the product is exact in float64.

    Args:
        w: Weight of any rank.
        out_axis: Axis of its output channels.
    """
    w32 = w.float()
    axis = out_axis % w.dim()
    others = [other for other in range(w.dim()) if other != axis]
    scale = w32.abs().amax(dim=others, keepdim=True) / INT8_MAX
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (w32 / scale).round().clamp(-INT8_MAX, INT8_MAX)
    return (codes.double() * scale.double()).to(w.dtype)


def e4m3(x: Tensor, scale: Tensor) -> Tensor:
    """Round ``x / scale`` to e4m3 (half to even, clamped to +-448) and multiply by ``scale`` again.

    The quotient is the float32 product with the float32 reciprocal, as kernels compute it.

    Args:
        x: Any shape.
        scale: float32, one element.
    """
    codes = (x.float() * scale.reciprocal()).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return (codes.double() * scale.double()).to(x.dtype)


def int4_groups(w: Tensor, out_axis: int) -> Tensor:
    """Round to 16 levels ``(code - 8) * scale + zero`` per 32 neighbours along the input axis of an output channel.

    The levels span the group's numbers and zero in 15 steps; they start at zero where no number is negative and else
    end at the largest. Scale and zero point are bfloat16, and codes are taken from what bfloat16 left of them. A last
    group may be short.

    Args:
        w: Weight of any rank.
        out_axis: Axis of its output channels; the others follow each other in order.
    """
    channels = w.float().movedim(out_axis, 0)
    flat = channels.reshape(channels.shape[0], -1)
    groups: Tensor = F.pad(flat, (0, -flat.shape[1] % INT4_GROUP)).unflatten(1, (-1, INT4_GROUP))
    low, high = groups.amin(-1, keepdim=True).clamp(max=0), groups.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / INT4_TOP).bfloat16().float()
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    above = INT4_TOP - INT4_ZERO_CODE
    zero = torch.where(low < 0, high - above * scale, INT4_ZERO_CODE * scale).bfloat16().float()
    codes = (((groups - zero) / scale).round() + INT4_ZERO_CODE).clamp(0, INT4_TOP)
    kept: Tensor = (codes.double() - INT4_ZERO_CODE) * scale.double() + zero.double()
    return kept.flatten(1)[:, : flat.shape[1]].reshape(channels.shape).movedim(0, out_axis).to(w.dtype)
