"""float16 weights, or float32 weights in oneDNN's blocked layout, for the projection of the condition."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.adaptive_norms import bind_adaptive_norm  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w16a32": "fp16_linear", "none": "fp32_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack the projection."""
    bound: nn.Module | Refusal = bind_adaptive_norm(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_packed",
    structure="adaln_producer",
    version=1,
    schemes=("w16a32", "none"),
    kernel="pytest-frt/frt-cpu",
    rows={"w16a32": (1, 512), "none": (1, 512)},
    variants={
        "norm": ("rms", "layer"),
        "style": ("scale_shift_gate", "scale_shift"),
        "conditioning": ("none", "silu"),
    },
    dims={"C": (16, 16384), "D": (1, 16384)},
)
