"""Weight quantisers. Round half to even throughout; weights are float32 [N, K], one row per output channel."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

INT8_MAX: Final = 127  # symmetric: -128 is not used, so that every code has its negative
FP8_MAX: Final = 448.0  # largest finite e4m3 number
INT4_GROUP: Final = 32  # input channels that share a scale and a zero point
INT4_STEPS: Final = 15
INT4_MIDDLE: Final = 8  # the code that stands for the zero point itself
INT4_HEADROOM: Final = 4
LOWEST_EXPONENT: Final = -126  # of a normal float32 number


def int8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise each row to int8.

    Args:
        weight: float32 [N, K].

    Returns:
        Codes int8 [N, K] in -127..127 and scale float32 [N], ``amax / 127``; a row of zeros has scale 1.
    """
    scale = weight.abs().amax(dim=1) / INT8_MAX
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (weight / scale[:, None]).round_().clamp_(-INT8_MAX, INT8_MAX)
    return codes.to(torch.int8), scale


def fp8_tensor(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a tensor to e4m3 with one scale.

    Args:
        weight: float32 [N, K].

    Returns:
        Codes e4m3 [N, K] and scale float32 [], ``amax / 448``; a tensor of zeros has scale 1.
    """
    scale = weight.abs().amax() / FP8_MAX
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (weight * scale.reciprocal()).clamp_(-FP8_MAX, FP8_MAX)
    return codes.to(torch.float8_e4m3fn), scale


def int4_groups(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise each group of 32 neighbours of a row to 16 levels ``(code - 8) * scale + zero``.

    The levels span the group and zero. Scale and zero point are rounded to bfloat16 before codes are taken, since the
    op reads them so.

    Args:
        weight: float32 [N, K], K a multiple of 32.

    Returns:
        Codes int32 [N, K] in 0..15, scale and zero point bfloat16 [N, K / 32]; a group of zeros has scale 1.
    """
    groups = weight.view(weight.shape[0], -1, INT4_GROUP)
    low, high = (bound.clamp_(*ends) for bound, ends in zip(groups.aminmax(dim=2), ((None, 0), (0, None)), strict=True))
    scale = ((high - low) / INT4_STEPS).bfloat16().float()
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    # From the end that is no zero: the level of zero is then as near to zero as bfloat16 has it.
    zero = torch.where(low < 0, high - (INT4_STEPS - INT4_MIDDLE) * scale, INT4_MIDDLE * scale).bfloat16()
    codes = (groups - zero.float()[..., None]).div_(scale[..., None]).round_().add_(INT4_MIDDLE).clamp_(0, INT4_STEPS)
    return codes.to(torch.int32).view_as(weight), scale.bfloat16(), zero


def power_of_two(scale: Tensor) -> Tensor:
    """Return, per row of bfloat16 scales [N, G], the float32 power of two that brings the largest into 8 to 16.

    Sums of what was divided by it are as large as those over int8 codes: bfloat16 has few subnormal numbers, and a
    layer of small weights would leave in them.
    """
    _, exponent = torch.frexp(scale.float().amax(dim=1))
    # The power itself must not be subnormal: it divides.
    return torch.ldexp(torch.ones(exponent.shape), (exponent - INT4_HEADROOM).clamp_(min=LOWEST_EXPONENT))
