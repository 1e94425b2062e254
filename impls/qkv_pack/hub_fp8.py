"""e4m3 weights and activations, one published biased projection for the three."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.hub_fp8 import bind_fp8_siblings  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

SLOTS: Final = {"w_q": "b_q", "w_k": "b_k", "w_v": "b_v"}
WIDTHS: Final = ("Nq", "Nk", "Nv")


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Quantise the three projections side by side."""
    bound: nn.Module | Refusal = bind_fp8_siblings(IMPL, seat, scales, kernel, slots=SLOTS, widths=WIDTHS)
    return bound


IMPL = Impl(
    name="hub_fp8",
    structure="qkv_pack",
    version=1,
    schemes=("fp8_static_bf16",),
    kernel="flashrt/flashrt-fp8-ffn",
    rows={"fp8_static_bf16": (1, 2048)},
    variants={"bias": ("none", "add")},
    dims={"K": (512, 16384), "Nq": (16, 16384), "Nk": (16, 16384), "Nv": (16, 16384)},
    multiples={"K": 16, "Nq": 16, "Nk": 16, "Nv": 16},
    points={"fp8_static_bf16": ("x",)},
    dtypes=("bfloat16",),
    devices=("cuda",),
)
