"""e4m3 weights and activations by the published two-layer block."""

from __future__ import annotations

from types import ModuleType

from pytest_frt.impls._shared.hub_fp8 import bind_fp8_two_layer  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Quantise both layers."""
    bound: nn.Module | Refusal = bind_fp8_two_layer(IMPL, seat, scales, kernel)
    return bound


IMPL = Impl(
    name="hub_fp8",
    structure="vision_ffn",
    version=1,
    schemes=("fp8_static_bf16",),
    kernel="flashrt/flashrt-fp8-ffn",
    rows={"fp8_static_bf16": (1, 2048)},
    variants={"activation": ("gelu_tanh",), "norm": ("none",), "residual": ("none",)},
    dims={"D": (512, 16384), "F": (1024, 16384)},
    multiples={"D": 16, "F": 16},
    points={"fp8_static_bf16": ("x_after_norm", "hidden_after_act")},
    dtypes=("bfloat16",),
    devices=("cuda",),
)
