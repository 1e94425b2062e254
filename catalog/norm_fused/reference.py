"""Layer norm with scale and shift: what every implementation of ``norm_fused`` must compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


def reference(
    *,
    x: Tensor,
    w: Tensor,
    b: Tensor,
    norm: str = "layer",
    eps: float = 1e-6,
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor:
    """Return ``(x - mean) / sqrt(variance + eps) * w + b``, both over the last axis, the variance over D terms.

    Args:
        x: Input ``[..., D]``.
        w: Scale ``[D]``.
        b: Shift ``[D]``.
        norm: ``layer``.
        eps: Added to the variance before the root.
        tap: Called with the named point ``x``; what it returns takes its place.

    Raises:
        KeyError: an unknown ``norm``.
    """
    if norm != "layer":
        raise KeyError(norm)
    h = tap("x", x)
    wide = torch.promote_types(x.dtype, torch.float32)  # mean and variance of a 16-bit row need 32 bits
    return F.layer_norm(h.to(wide), h.shape[-1:], w.to(wide), b.to(wide), eps).to(x.dtype)  # [..., D]
