"""int8 weights: weight-only with bfloat16 activations, or with activations quantised at each call."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_projection  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"w8a16_decode": "int8_linear", "w8a8_dynamic": "dynamic_int8_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Pack the projection."""
    bound: nn.Module | Refusal = bind_projection(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_int8",
    structure="linear_proj",
    version=1,
    schemes=("w8a16_decode", "w8a8_dynamic"),
    kernel="pytest-frt/frt-cpu",
    rows={"w8a16_decode": (1, 8), "w8a8_dynamic": (1, 512)},
    variants={"bias": ("none", "add")},
    dims={"K": (16, 16384), "N": (1, 1048576)},
    multiples={"K": 16},
)
