"""The host's own projection, computed once per condition: a denoise loop meets the same few in every tick.

A condition is looked up by its bytes, so that the answer is the host's bit for bit whatever the condition is; one that
is not in the table is projected as the host does.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.adaptive_norms import bind_adaptive_norm  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

LAYERS: Final = {"none": "table_linear"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Copy the projection and open an empty table."""
    bound: nn.Module | Refusal = bind_adaptive_norm(IMPL, seat, scales, kernel, LAYERS)
    return bound


IMPL = Impl(
    name="torch_table",
    structure="adaln_producer",
    version=1,
    schemes=("none",),
    kernel="pytest-frt/frt-cpu",
    rows={"none": (1, 512)},
    variants={
        "norm": ("rms", "layer"),
        "style": ("scale_shift_gate", "scale_shift"),
        "conditioning": ("none", "silu"),
    },
    dims={"C": (1, 16384), "D": (1, 16384)},
)
