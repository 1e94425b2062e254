"""The toy impl."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor, nn
from toy_world_impls._shared.maths import ffn

from pytest_frt.sdk import BindSeat, Impl, Scales

IMPL = Impl(
    name="toy",
    structure="toy_ffn",
    version=3,
    schemes=("toy",),
    kernel="acme/toy",
    rows={"toy": (1, 8)},
    points={"toy": ("x",)},
)


class Bound(nn.Module):
    def __init__(self, seat: BindSeat, scales: Scales, kernel: ModuleType) -> None:
        super().__init__()
        self.up, self.down = seat.weights["w_up"].clone(), seat.weights["w_down"].clone()
        self.scale, self.kernel = scales.by_point["x"], kernel

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.kernel.same(ffn(x, self.up, self.down, self.scale))
        return answer


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module:
    return Bound(seat, scales, kernel)
