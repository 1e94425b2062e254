"""int4 weights in groups of 32, bfloat16 activations."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_gated  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w4a16_decode": "int4_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack gate and up side by side, and down."""
    bound: nn.Module | Refusal = bind_gated(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_int4",
    structure="decoder_ffn",
    version=1,
    schemes=("w4a16_decode",),
    kernel="pytest-frt/frt-cpu",
    rows={"w4a16_decode": (1, 8)},
    variants={"activation": ("gelu_tanh", "silu"), "norm": ("none",), "residual": ("none",)},
    dims={"D": (32, 16384), "F": (32, 16384)},
    multiples={"D": 32, "F": 32},
)
