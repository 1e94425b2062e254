"""bfloat16 layer norm with float32 sums, by the published op."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.hub_ops import find, unbindable  # type: ignore[import-not-found]
from pytest_frt.impls._shared.hub_parts import HubOp  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

OP: Final = "layer_norm_bf16"


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Hold the vectors of the norm."""
    refusal: Refusal | None = unbindable(IMPL, seat, scales)
    if refusal is not None:
        return refusal
    op = find(IMPL, kernel, OP)
    if isinstance(op, Refusal):
        return op
    vectors = (seat.weights[slot].detach().clone() for slot in ("w", "b"))
    part: nn.Module = HubOp(op, (*vectors, seat.constants["eps"]), seat.dims["D"])
    return part


IMPL = Impl(
    name="hub_bf16",
    structure="norm_fused",
    version=1,
    schemes=("bf16_structural",),
    kernel="flashrt/flashrt-residual-norm-quant",
    rows={"bf16_structural": (1, 6256)},
    variants={"norm": ("layer",)},
    dims={"D": (2, 16384)},
    multiples={"D": 2},
    dtypes=("bfloat16",),
    devices=("cuda",),
)
