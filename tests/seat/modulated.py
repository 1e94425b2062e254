"""A norm as diffusion transformers have it."""

from __future__ import annotations

from torch import Tensor, nn


class ModulatedNorm(nn.Module):
    """Layer norm with scale and shift that are projected from a condition."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5, elementwise_affine=False)
        self.linear = nn.Linear(condition, 2 * width)

    def forward(self, x: Tensor, temb: Tensor) -> Tensor:
        scale, shift = self.linear(nn.functional.silu(temb)).chunk(2, 1)
        normed: Tensor = self.norm(x)
        y: Tensor = normed * (1 + scale[:, None]) + shift[:, None]
        return y
