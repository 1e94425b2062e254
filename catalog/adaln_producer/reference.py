"""Norm with projected scale, shift and gate: what every implementation of ``adaln_producer`` must compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


def _rms(x: Tensor, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # the mean of squares of a 16-bit row needs 32 bits
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


def _layer(x: Tensor, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return F.layer_norm(wide, wide.shape[-1:], eps=eps)


_NORMS: dict[str, Callable[[Tensor, float], Tensor]] = {"rms": _rms, "layer": _layer}
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"none": lambda c: c, "silu": F.silu}
_ORDERS = {
    "scale_shift_gate": ("scale", "shift", "gate"),
    "scale_shift": ("scale", "shift"),
    "shift_scale_gate": ("shift", "scale", "gate"),
    "shift_scale": ("shift", "scale"),
}


def reference(  # noqa: PLR0913 (one keyword per slot, axis and constant of structure.yaml)
    *,
    x: Tensor,
    cond: Tensor,
    w_style: Tensor,
    b_style: Tensor,
    norm: str = "rms",
    style: str = "scale_shift_gate",
    conditioning: str = "none",
    eps: float = 1e-6,
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return ``norm(x) * (1 + scale) + shift``, and the gate where the variant has one.

    Args:
        x: Input ``[..., D]``.
        cond: Condition of the call ``[1, C]``.
        w_style: ``[C, S]`` with S = 3 D or 2 D.
        b_style: ``[S]``.
        norm: ``rms`` or ``layer``, without weights of its own.
        style: What the projection's pieces of D are; ``shift_scale`` and ``shift_scale_gate``, which no variant has,
            are near misses.
        conditioning: ``none``, or ``silu`` before the projection.
        eps: Added to the mean square or the variance before the root.
        tap: Called with the named point ``cond``; what it returns takes its place.

    Raises:
        KeyError: an unknown ``norm``, ``style`` or ``conditioning``.
    """
    c = tap("cond", _ACTIVATIONS[conditioning](cond))
    projected = (c @ w_style + b_style).reshape(*(1,) * (x.dim() - 1), -1)  # [1, C] -> [.., 1, S]
    order = _ORDERS[style]
    piece = dict(zip(order, projected.chunk(len(order), -1), strict=True))  # [.., 1, D] each
    y = (_NORMS[norm](x, eps) * (1 + piece["scale"]) + piece["shift"]).to(x.dtype)
    return (y, piece["gate"].clone()) if "gate" in piece else y  # a seat returns memory of its own
