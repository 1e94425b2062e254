"""Number formats that several schemes share. Each returns what the format keeps, in the dtype it was given."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

INT8_MAX: Final = 127
E4M3_MAX: Final = 448.0


def as_float32(x: Tensor) -> Tensor:
    """Round to the nearest float32 number; what is smaller than its range becomes zero."""
    return x.float().to(x.dtype)


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
