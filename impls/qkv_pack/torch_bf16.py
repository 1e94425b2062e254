"""bfloat16 weights and activations, one matmul for the three projections."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_siblings  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"bf16_structural": "bf16_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack the three projections side by side."""
    bound: nn.Module | Refusal = bind_siblings(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_bf16",
    structure="qkv_pack",
    version=1,
    schemes=("bf16_structural",),
    kernel="pytest-frt/frt-cpu",
    rows={"bf16_structural": (1, 512)},
    variants={"bias": ("none", "add")},
    dims={"K": (16, 16384), "Nq": (1, 65536), "Nk": (1, 65536), "Nv": (1, 65536)},
)
