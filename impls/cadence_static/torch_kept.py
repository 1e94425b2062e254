"""The host's own projection, computed once per input: a loop feeds the keys and values of a condition at every step.

The last input is kept with its output and compared bit for bit, so that no call has to say when a condition changed.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.structure_binders import bind_projection  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"none": "kept_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Copy the projection; nothing is kept yet."""
    bound: nn.Module | Refusal = bind_projection(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_kept",
    structure="cadence_static",
    version=1,
    schemes=("none",),
    kernel="pytest-frt/frt-cpu",
    rows={"none": (1, 1024)},
    variants={"bias": ("none", "add")},
    dims={"K": (1, 16384), "N": (1, 65536)},
)
