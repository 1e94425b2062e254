"""e4m3 weights and activations by the published biased projection."""

from __future__ import annotations

from types import ModuleType

from pytest_frt.impls._shared.hub_fp8 import bind_fp8_linear  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Quantise the projection."""
    bound: nn.Module | Refusal = bind_fp8_linear(IMPL, seat, scales, kernel)
    return bound


IMPL = Impl(
    name="hub_fp8",
    structure="linear_proj",
    version=1,
    schemes=("fp8_static_bf16",),
    kernel="flashrt/flashrt-fp8-ffn",
    rows={"fp8_static_bf16": (1, 2048)},
    variants={"bias": ("none", "add")},
    dims={"K": (512, 16384), "N": (128, 16384)},
    multiples={"K": 16, "N": 16},
    points={"fp8_static_bf16": ("x",)},
    dtypes=("bfloat16",),
    devices=("cuda",),
)
