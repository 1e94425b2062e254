"""What the compiled int8 kernel computes, in float64, with how far a right result may lie from it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

SCALE = 2.0**-9


def weights(shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes, scales that all differ, and biases."""
    channels = torch.arange(1.0, shape[0] + 1)
    return torch.randint(-127, 128, shape, dtype=torch.int8), SCALE * (1 + channels / channels.numel()), channels.sin()


def products(x: Tensor, codes: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products in float64, and how far float32 sums in sixteen lanes may lie from them."""
    wide, matrix = x.bfloat16().double(), codes.double() * scale.double()[:, None]
    steps = x.shape[-1] / 16 + 8
    return wide @ matrix.t(), (wide.abs() @ matrix.abs().t()) * steps * 2.0**-24


def slope(activation: str, g: Tensor) -> Tensor:
    """Return what the sigmoid of an activation is taken of."""
    return 2 * math.sqrt(2 / math.pi) * (g + 0.044715 * g**3) if activation == "gelu_tanh" else g


def gate(activation: str, codes: Tensor, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gated products in float64 and their bound; slopes of both activations stay under 1.13."""
    (g, u), (dg, du) = (pair.chunk(2, -1) for pair in products(x, codes, scale))
    act = g * torch.sigmoid(slope(activation, g))
    return act * u, (1.13 * dg + act.abs() * 2.0**-20) * (u.abs() + du) + act.abs() * du + u.abs() * 2.0**-100


def within(got: Tensor, want: Tensor, bound: Tensor) -> bool:
    """Return whether every number lies within its bound; a NaN does not."""
    return bool(((got.double() - want).abs() <= bound).all())
