"""float16 weights, packed once at bind: half of what a call reads from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.sdk import BindSeat, Impl, Measured, Refusal, Scales

FP16_MAX: Final = torch.finfo(torch.float16).max  # the pack clamps what is larger
ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {"gelu_erf": F.gelu, "silu": F.silu}


class PackedGlu(nn.Module):
    """``x[..., D] -> [..., D]`` over two packed layers. Registers no parameter: the host's stay the ones to save."""

    def __init__(self, gate_up: nn.Module, down: nn.Module, activation: str) -> None:
        super().__init__()
        self.gate_up, self.down = gate_up, down
        self._act = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the unit."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(self._act(gate) * up)
        return out


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:  # noqa: ARG001 (no static scales)
    """Pack both matrices; a weight beyond float16 is refused with its number."""
    for slot, weight in seat.weights.items():
        largest = float(weight.abs().max())
        if not largest <= FP16_MAX:  # NaN is beyond it too
            measured = Measured(f"amax.{slot}", largest, "<=", FP16_MAX, weight.numel())
            return Refusal("bind", "envelope", f"slot {slot} holds {largest:g}, beyond float16", measured=(measured,))
    gate_up, down = (kernel.fp16_linear([seat.weights[slot]]) for slot in ("w_gate_up", "w_down"))
    return PackedGlu(gate_up, down, seat.variant["activation"])


IMPL = Impl(
    name="fp16_weights",
    structure="packed_glu",
    version=1,
    schemes=("w16a32",),
    kernel="pytest-frt/frt-cpu",
    rows={"w16a32": (1, 64)},
    variants={"activation": ("gelu_erf", "silu")},
    dims={"D": (16, 16384), "F": (16, 16384)},
)
