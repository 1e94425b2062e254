"""Two-projection feed-forward block: what every implementation of ``vision_ffn`` must compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": F.gelu,
    "quick_gelu": _quick_gelu,
}


def _layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)  # mean and variance of a 16-bit row need 32 bits
    scale = None if weight is None else weight.to(wide)
    shift = None if bias is None else bias.to(wide)
    return F.layer_norm(x.to(wide), x.shape[-1:], scale, shift, eps).to(x.dtype)


def reference(  # noqa: PLR0913 (one keyword per slot, axis and constant of structure.yaml)
    *,
    x: Tensor,
    w_fc1: Tensor,
    b_fc1: Tensor,
    w_fc2: Tensor,
    b_fc2: Tensor,
    w_norm: Tensor | None = None,
    b_norm: Tensor | None = None,
    activation: str = "gelu_tanh",
    norm: str = "none",
    residual: str = "none",
    eps: float = 1e-6,
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor:
    """Return ``act(h w_fc1' + b_fc1) w_fc2' + b_fc2`` with layer norm and residual as the variant says.

    Args:
        x: Input ``[..., D]``.
        w_fc1: ``[F, D]``.
        b_fc1: ``[F]``.
        w_fc2: ``[D, F]``.
        b_fc2: ``[D]``.
        w_norm: Layer-norm weight ``[D]``; absent means the norm has no learned scale.
        b_norm: Layer-norm bias ``[D]``; absent means the norm has no learned shift.
        activation: ``gelu_tanh`` or ``gelu_erf``; ``quick_gelu``, which no variant has, is a near miss.
        norm: ``none``; ``pre``: the block reads ``ln(x)``; ``post``: the result goes through ``ln``.
        residual: ``none``, or ``add`` to add ``x`` to the projection.
        eps: Added to the variance before the root.
        tap: Called with each named point; what it returns takes the point's place.

    Raises:
        KeyError: an unknown ``activation``, ``norm`` or ``residual``.
    """
    act = _ACTIVATIONS[activation]
    pre, post = {"none": (False, False), "pre": (True, False), "post": (False, True)}[norm]
    add = {"none": False, "add": True}[residual]
    h = _layer_norm(x, w_norm, b_norm, eps) if pre else x  # [..., D]
    h = tap("x_after_norm", h)
    hidden = act(h @ w_fc1.T + b_fc1)  # [..., D] -> [..., F]
    y = tap("hidden_after_act", hidden) @ w_fc2.T + b_fc2  # [..., F] -> [..., D]
    y = x + y if add else y
    return _layer_norm(y, w_norm, b_norm, eps) if post else y
