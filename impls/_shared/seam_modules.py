"""What a bound part computes around its packed layers. Shapes and names follow the references of the catalog.

Parts register no parameter and no buffer: names and ``state_dict`` of the host stay as they were. Small vectors are
copies, so that a part keeps none of the host's tensors alive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gelu_erf": partial(F.gelu, approximate="none"),
    "silu": F.silu,
}


class GatedFeedForward(nn.Module):
    """``act(x w_gate) * (x w_up)`` projected by ``w_down``: ``x[..., D] -> [..., D]``.

    Args:
        gate_up: ``[..., D] -> [..., 2F]``, gate first.
        down: ``[..., F] -> [..., D]``.
        activation: Variant value.
    """

    def __init__(self, gate_up: nn.Module, down: nn.Module, activation: str) -> None:
        super().__init__()
        self.gate_up, self.down = gate_up, down
        self._act = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(self._act(gate) * up)
        return out


class PostNorm(nn.Module):
    """Layer norm over the last axis with copies of its vectors."""

    def __init__(self, width: int, weight: Tensor | None, bias: Tensor | None, eps: float) -> None:
        super().__init__()
        self._width, self._eps = width, eps
        self._weight = None if weight is None else weight.detach().clone()
        self._bias = None if bias is None else bias.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x[..., D]``."""
        return F.layer_norm(x, (self._width,), self._weight, self._bias, self._eps)


class FeedForward(nn.Module):
    """``act(x w_fc1' + b_fc1) w_fc2' + b_fc2``, then the residual, then the norm: ``x[..., D] -> [..., D]``.

    Args:
        fc1: ``[..., D] -> [..., F]``, biased.
        fc2: ``[..., F] -> [..., D]``, biased.
        activation: Variant value.
        residual: True to add ``x``.
        norm: Applied last; None for none.
    """

    def __init__(
        self, fc1: nn.Module, fc2: nn.Module, *, activation: str, residual: bool, norm: PostNorm | None
    ) -> None:
        super().__init__()
        self.fc1, self.fc2, self.norm = fc1, fc2, norm
        self._act = ACTIVATIONS[activation]
        self._residual = residual

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block."""
        y: Tensor = self.fc2(self._act(self.fc1(x)))
        y = x + y if self._residual else y
        return y if self.norm is None else self.norm(y)


class SiblingProjections(nn.Module):
    """One matmul for projections that read the same input: ``x[..., K] -> ([..., N_1], [..., N_2], ...)``.

    Args:
        merged: ``[..., K] -> [..., sum(N_i)]``.
        widths: ``N_i`` in order.
    """

    def __init__(self, merged: nn.Module, widths: Sequence[int]) -> None:
        super().__init__()
        self.merged = merged
        self._widths = list(widths)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return each projection, contiguous as a linear layer's output is: hosts reshape it with ``view``."""
        return tuple(part.contiguous() for part in self.merged(x).split(self._widths, dim=-1))
