"""The model that is attached to; its classes have a source file a certificate can bind."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn


class Ffn(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.down(torch.relu(self.up(x)))
        return answer


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(width=8, hidden=12, name="not projected")
        self.blocks = nn.ModuleList([Ffn(8, 12), Ffn(8, 12)])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x
