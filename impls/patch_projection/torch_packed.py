"""float16 weights, or float32 weights in oneDNN's blocked layout, packed once at bind."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_projection  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w16a32": "fp16_linear", "none": "fp32_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack the projection."""
    bound: nn.Module | Refusal = bind_projection(IMPL, seat, scales, kernel, LAYERS, transposed=False)
    return bound


IMPL = Impl(
    name="torch_packed",
    structure="patch_projection",
    version=1,
    schemes=("w16a32", "none"),
    kernel="pytest-frt/frt-cpu",
    rows={"w16a32": (1, 6256), "none": (1, 6256)},
    variants={"bias": ("none", "add")},
    dims={"K": (16, 16384), "N": (1, 16384)},
)
