"""float32 layer norm as one op over copies of scale and shift."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.layer_packer import packer  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"none": "layer_norm"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Hold the vectors of the norm."""
    packing = packer(IMPL, seat, scales, kernel, layers=LAYERS, transposed=False)
    if isinstance(packing, Refusal):
        return packing
    bound: nn.Module = getattr(kernel, packing.layer)(seat.weights["w"], seat.weights["b"], eps=seat.constants["eps"])
    return bound


IMPL = Impl(
    name="torch_held",
    structure="norm_fused",
    version=1,
    schemes=("none",),
    kernel="pytest-frt/frt-cpu",
    rows={"none": (1, 6256)},
    variants={"norm": ("layer",)},
    dims={"D": (2, 16384)},
)
