"""What bound adaptive norms compute around their projections. Parts register no parameter and no buffer."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

from .layer_packer import packer
from .seam_modules import SiblingProjections

PIECES: Final = {"scale_shift_gate": 3, "scale_shift": 2}
MODULATED: Final = {"norm": "layer", "style": "scale_shift", "conditioning": "silu"}
"""The adaptive norm that a modulated chain starts with."""
READERS: Final = {"qkv": "qkv", "q_only": "q"}
"""Fan-out to the projections that read the norm."""


class AdaptiveNorm(nn.Module):
    """``norm(x) * (1 + scale) + shift`` and a gate, of a condition: ``x[..., D], cond[1, C] -> [..., D], [.., 1, D]``.

    Args:
        project: ``[1, C] -> [1, S]``.
        variant: Axis to value of the seat.
        eps: Of the norm.
    """

    def __init__(self, project: nn.Module, variant: Mapping[str, str], eps: float) -> None:
        super().__init__()
        self.project = project
        self._pieces = PIECES[variant["style"]]
        self._layer, self._silu = variant["norm"] == "layer", variant["conditioning"] == "silu"
        self._eps = eps

    def forward(self, x: Tensor, cond: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the normalised rows, with the gate where the variant has one."""
        style = self.project((F.silu(cond) if self._silu else cond).reshape(1, -1))
        scale, shift, *gate = style.reshape(*(1,) * (x.dim() - 1), -1).chunk(self._pieces, -1)
        if self._layer:
            normed = F.layer_norm(x, x.shape[-1:], eps=self._eps)
        else:
            normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self._eps)
        y = normed * (1 + scale) + shift
        return (y, gate[0].clone()) if gate else y  # a piece of its own: a host may write into what it gets


def bind_adaptive_norm(
    impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType, layers: Mapping[str, str]
) -> AdaptiveNorm | Refusal:
    """Bind an adaptive norm whose projection is a layer of the kernel."""
    packing = packer(impl, seat, scales, kernel, layers=layers, transposed=True)
    if isinstance(packing, Refusal):
        return packing
    return AdaptiveNorm(packing.pack(("w_style",), "cond", ("b_style",)), seat.variant, seat.constants["eps"])


class ModulatedProjections(nn.Module):
    """An adaptive norm and the projections that read it: ``x[..., D], cond[1, C] -> [..., D], [..., N_1], ...``."""

    def __init__(self, norm: AdaptiveNorm, siblings: SiblingProjections) -> None:
        super().__init__()
        self.norm, self.siblings = norm, siblings

    def forward(self, x: Tensor, cond: Tensor) -> tuple[Tensor, ...]:
        """Return the modulated rows and each projection of them."""
        n: Tensor = self.norm(x, cond)
        return (n, *self.siblings(n))


def bind_modulated_chain(
    impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType, layers: Mapping[str, str]
) -> ModulatedProjections | Refusal:
    """Bind a modulated norm and the projections that read it, which become one matmul."""
    packing = packer(impl, seat, scales, kernel, layers=layers, transposed=True)
    if isinstance(packing, Refusal):
        return packing
    readers = READERS[seat.variant["fanout"]]
    merged = packing.pack([f"w_{name}" for name in readers], "n", [f"b_{name}" for name in readers])
    norm = AdaptiveNorm(packing.pack(("w_cond",), "cond", ("b_cond",)), MODULATED, seat.constants["eps"])
    return ModulatedProjections(norm, SiblingProjections(merged, [seat.dims[f"N{name}"] for name in readers]))
