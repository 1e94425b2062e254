"""float16 weights, or float32 weights in oneDNN's blocked layout: the projections that read the norm are one matmul."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.adaptive_norms import bind_modulated_chain  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w16a32": "fp16_linear", "none": "fp32_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack the projection of the condition, and those of the attention side by side."""
    bound: nn.Module | Refusal = bind_modulated_chain(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_packed",
    structure="modnorm_qkv_chain",
    version=1,
    schemes=("w16a32", "none"),
    kernel="pytest-frt/frt-cpu",
    rows={"w16a32": (1, 512), "none": (1, 512)},
    variants={"fanout": ("qkv", "q_only"), "bias": ("none", "add")},
    dims={"C": (16, 16384), "D": (16, 16384), "Nq": (1, 65536), "Nk": (1, 65536), "Nv": (1, 65536)},
)
