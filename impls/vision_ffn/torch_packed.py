"""float16 weights, or float32 weights in oneDNN's blocked layout, packed once at bind."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_two_layer  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w16a32": "fp16_linear", "none": "fp32_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack both layers."""
    bound: nn.Module | Refusal = bind_two_layer(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_packed",
    structure="vision_ffn",
    version=1,
    schemes=("w16a32", "none"),
    kernel="pytest-frt/frt-cpu",
    rows={"w16a32": (1, 64), "none": (1, 8)},
    variants={"activation": ("gelu_tanh", "gelu_erf"), "norm": ("none", "post"), "residual": ("none", "add")},
    dims={"D": (16, 16384), "F": (16, 16384)},
)
