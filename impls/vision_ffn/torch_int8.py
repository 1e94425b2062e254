"""int8 weights, activations quantised at each call."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_two_layer  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w8a8_dynamic": "dynamic_int8_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack both layers."""
    bound: nn.Module | Refusal = bind_two_layer(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_int8",
    structure="vision_ffn",
    version=1,
    schemes=("w8a8_dynamic",),
    kernel="pytest-frt/frt-cpu",
    rows={"w8a8_dynamic": (1, 512)},
    variants={"activation": ("gelu_tanh", "gelu_erf"), "norm": ("none", "post"), "residual": ("none", "add")},
    dims={"D": (16, 16384), "F": (16, 16384)},
    multiples={"D": 16, "F": 16},
)
