"""int4 weights in groups of 32, bfloat16 activations."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_projection  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w4a16_decode": "int4_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack the projection."""
    bound: nn.Module | Refusal = bind_projection(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_int4",
    structure="linear_proj",
    version=1,
    schemes=("w4a16_decode",),
    kernel="pytest-frt/frt-cpu",
    rows={"w4a16_decode": (1, 8)},
    variants={"bias": ("none", "add")},
    dims={"K": (32, 16384), "N": (16, 1048576)},
    multiples={"K": 32, "N": 16},
)
