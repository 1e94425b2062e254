"""Packed gated linear unit: what every implementation of ``packed_glu`` must compute."""

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
    "gelu_erf": F.gelu,
    "silu": F.silu,
    "gelu_tanh": _gelu_tanh,
    "quick_gelu": _quick_gelu,
}


def reference(
    *,
    x: Tensor,
    w_gate_up: Tensor,
    w_down: Tensor,
    activation: str = "gelu_erf",
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor:
    """Return ``(act(gate) * up) w_down'`` where ``[gate, up] = x w_gate_up'``.

    Args:
        x: Input ``[..., D]``.
        w_gate_up: ``[2F, D]``, the rows of the gate first.
        w_down: ``[D, F]``.
        activation: ``gelu_erf`` or ``silu``; ``gelu_tanh`` and ``quick_gelu``, which no variant has, are near misses.
        tap: Called with each named point; what it returns takes the point's place.

    Raises:
        KeyError: an unknown ``activation``.
    """
    act = _ACTIVATIONS[activation]
    gate, up = (tap("x", x) @ w_gate_up.T).chunk(2, dim=-1)  # [..., D] -> [..., F], [..., F]
    return tap("act_after_mul", act(gate) * up) @ w_down.T  # [..., F] -> [..., D]
