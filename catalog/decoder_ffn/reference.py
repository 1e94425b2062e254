"""Gated feed-forward block: what every implementation of ``decoder_ffn`` must compute."""

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
    "silu": F.silu,
    "gelu_erf": F.gelu,
    "quick_gelu": _quick_gelu,
}


def _rms(x: Tensor, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # the mean of squares of a 16-bit row needs 32 bits
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


def reference(  # noqa: PLR0913 (one keyword per slot, axis and constant of structure.yaml)
    *,
    x: Tensor,
    w_gate: Tensor,
    w_up: Tensor,
    w_down: Tensor,
    w_norm: Tensor | None = None,
    activation: str = "gelu_tanh",
    norm: str = "none",
    residual: str = "none",
    eps: float = 1e-6,
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor:
    """Return ``act(h w_gate) * (h w_up)`` projected by ``w_down``, with ``h`` the optionally normalised input.

    Args:
        x: Input ``[..., D]``.
        w_gate: ``[D, F]``.
        w_up: ``[D, F]``.
        w_down: ``[F, D]``.
        w_norm: ``[D]``; needed unless ``norm`` is ``none``.
        activation: ``gelu_tanh`` or ``silu``; ``gelu_erf`` and ``quick_gelu``, which no variant has, are near misses.
        norm: ``none``; RMS norm scaled by ``1 + w_norm`` (``offset``) or by ``w_norm`` (``direct``).
        residual: ``none``, or ``add`` to return ``x + y``.
        eps: Added to the mean square before the root.
        tap: Called with each named point; what it returns takes the point's place.

    Raises:
        KeyError: an unknown ``activation``, ``norm`` or ``residual``.
        ValueError: ``norm`` needs ``w_norm`` and there is none.
    """
    act = _ACTIVATIONS[activation]
    scale = {"none": None, "offset": 1.0, "direct": 0.0}[norm]  # what is added to w_norm
    add = {"none": False, "add": True}[residual]
    h = x  # [..., D]
    if scale is not None:
        if w_norm is None:
            raise ValueError(f"norm={norm!r} needs w_norm")
        h = (_rms(x, eps) * (scale + w_norm.to(torch.promote_types(x.dtype, torch.float32)))).to(x.dtype)
    h = tap("x_after_norm", h)
    gate, up = h @ w_gate, h @ w_up  # [..., D] -> [..., F]
    y = tap("act_after_mul", act(gate) * up) @ w_down  # [..., F] -> [..., D]
    return x + y if add else y
