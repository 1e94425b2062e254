"""e4m3 weights and activations with static scales over torch's scaled matmul: the one code for a CPU and for GPUs."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_gated  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"fp8_static": "fp8_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack gate and up side by side, and down."""
    bound: nn.Module | Refusal = bind_gated(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_scaled",
    structure="decoder_ffn",
    version=1,
    schemes=("fp8_static",),
    kernel="pytest-frt/frt-scaled",
    rows={"fp8_static": (1, 512)},
    variants={"activation": ("gelu_tanh", "silu"), "norm": ("none",), "residual": ("none",)},
    dims={"D": (16, 16384), "F": (16, 32768)},
    multiples={"D": 16, "F": 16},
    devices=("cpu", "cuda"),
    points={"fp8_static": ("x_after_norm", "act_after_mul")},
    emulate=("fp8_static",),
)
