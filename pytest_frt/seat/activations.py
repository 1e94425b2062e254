"""Which activation a host module computes, found by what it does to a probe and never by its name or class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def _quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)  # Hendrycks & Gimpel 2016, section 2: the sigmoid approximation


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


CANDIDATES: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": F.gelu,
    "quick_gelu": _quick_gelu,
    "silu": F.silu,
    "relu": F.relu,
    "relu_squared": lambda x: F.relu(x).square(),
    "hardswish": F.hardswish,
    "mish": F.mish,
    "elu": F.elu,
    "softplus": F.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "identity": lambda x: x,
}
"""Label to function. A label is a word of a structure's ``activation`` axis; the rest serve to name what was found."""

Forward = Callable[[Tensor], object]


@dataclass(frozen=True, slots=True)
class Identified:
    """The module computes the candidate called ``label``."""

    label: str


@dataclass(frozen=True, slots=True)
class Unidentified:
    """No candidate, or none that can be told; ``reason`` says which."""

    reason: str


def probe() -> Tensor:
    """Return the probe ``[2, 1536]`` in float64.

    It is dense over [-12, 12], where the candidates differ, and reaches to 1e4 on both sides, where a clipped
    variant differs from the function it clips. No two values are equal.
    """
    near = torch.linspace(-12, 12, 2048, dtype=torch.float64)
    far = torch.logspace(1.1, 4, 512, dtype=torch.float64)
    return torch.cat([near, far, -far]).reshape(2, -1)


def _error(got: Tensor, want: Tensor) -> float:
    """Return the largest difference relative to ``1 + |want|``; NaN where either is not finite."""
    return float(((got - want).abs() / (1 + want.abs())).max())


def _call(forward: Forward, x: Tensor) -> Tensor | Unidentified:
    try:
        y = forward(x.clone())  # an in-place activation must not spoil the probe
    except (TypeError, ValueError, RuntimeError) as fault:
        return Unidentified(f"it fails on a float64 probe: {fault}")
    if not isinstance(y, Tensor) or y.shape != x.shape or y.dtype != x.dtype:
        return Unidentified("it does not return one float64 value per float64 value")
    return y


def identify(module: object, tolerance: float) -> Identified | Unidentified:
    """Tell which candidate a module computes.

    Args:
        module: The host's activation: a module or a plain function of one tensor.
        tolerance: Largest difference relative to ``1 + |y|`` on the float64 probe.

    Returns:
        The one candidate within ``tolerance``, or why there is none.
    """
    if not callable(module):
        return Unidentified(f"it is {type(module).__name__}, no function of a tensor")
    if isinstance(module, nn.Module) and next(module.parameters(), None) is not None:
        return Unidentified("it has parameters of its own")
    x = probe()
    with torch.no_grad():
        y = _call(module, x)
        if isinstance(y, Unidentified):
            return y
        order = torch.arange(x.numel() - 1, -1, -1)
        turned = _call(module, x.reshape(-1)[order].reshape(x.shape))
    if isinstance(turned, Unidentified):
        return turned
    if not _error(turned.reshape(-1)[order], y.reshape(-1)) <= tolerance:
        return Unidentified("its values depend on their neighbours or change from call to call")
    errors = {label: _error(y, candidate(x)) for label, candidate in CANDIDATES.items()}
    within = [label for label, error in errors.items() if error <= tolerance]
    if len(within) == 1:
        return Identified(within[0])
    nearest = min(errors, key=lambda label: errors[label] if errors[label] == errors[label] else float("inf"))
    return Unidentified(f"it is none of {', '.join(CANDIDATES)}; nearest is {nearest} with error {errors[nearest]:.1e}")
