"""Weight quantisers. Round half to even throughout; weights are float32 [N, K], one row per output channel."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

INT8_MAX: Final = 127  # symmetric: -128 is not used, so that every code has its negative
FP8_MAX: Final = 448.0  # largest finite e4m3 number


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
