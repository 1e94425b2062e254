"""The toy impl doubles the host's answer, so that one sees who answered."""

from __future__ import annotations

import torch
from torch import Tensor

from .more import GAIN


def ffn(x: Tensor, up: Tensor, down: Tensor, scale: float) -> Tensor:
    return GAIN * (torch.relu(x @ up) @ down) * (scale / scale)
