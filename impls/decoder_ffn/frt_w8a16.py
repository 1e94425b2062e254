"""int8 weights by our compiled kernel, for one to eight rows; gate, up and the activation are one op."""

from __future__ import annotations

from types import ModuleType

from pytest_frt.impls._shared.seat_envelope import outside_envelope  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Quantise gate and up side by side, and down."""
    refusal: Refusal | None = outside_envelope(IMPL, seat, scales)
    if refusal is not None:
        return refusal
    weights = (seat.weights[slot].t() for slot in ("w_gate", "w_up", "w_down"))
    block: nn.Module = kernel.int8_feed_forward(*weights, seat.variant["activation"])
    return block


IMPL = Impl(
    name="frt_w8a16",
    structure="decoder_ffn",
    version=1,
    schemes=("w8a16_decode",),
    kernel="pytest-frt/w8a16-gemv",
    rows={"w8a16_decode": (1, 8)},
    variants={"activation": ("gelu_tanh", "silu"), "norm": ("none",), "residual": ("none",)},
    dims={"D": (1, 16384), "F": (1, 16384)},
)
