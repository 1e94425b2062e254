"""An implementation that changes nothing: every linear of the host, called as the host calls it.

Timed against its base it shows what attaching costs and how often the rule would activate luck.
"""

from __future__ import annotations

from types import ModuleType

from torch import Tensor, nn

from pytest_frt.sdk import BindSeat, Impl, Scales

IMPL = Impl(
    name="aa_identity",
    structure="linear_proj",
    version=1,
    schemes=("none",),
    kernel="pytest-frt/aa-identity",
    rows={"none": (1, 65536)},
)


class Identity(nn.Module):
    """The host's own product, on the host's own storage.

    Args:
        weight: ``[N, K]``, a view of the host's parameter.
        bias: ``[N]``, or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self._weight, self._bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x @ weight.T + bias``."""
        return nn.functional.linear(x, self._weight, self._bias)


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module:  # noqa: ARG001 (nothing is scaled)
    """Take the weights as they lie: the slot's ``[K, N]`` is a transposed view of them."""
    return Identity(seat.weights["w"].t(), seat.weights.get("b"))
