"""Two projections with a ReLU between them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _untapped(_point: str, value: Tensor) -> Tensor:
    return value


def reference(
    *,
    x: Tensor,
    w_up: Tensor,
    w_down: Tensor,
    activation: str = "relu",  # noqa: ARG001 (the axis has one value)
    tap: Callable[[str, Tensor], Tensor] = _untapped,
) -> Tensor:
    return torch.relu(tap("x", x) @ w_up) @ w_down
