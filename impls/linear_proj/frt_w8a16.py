"""int8 weights by our compiled kernel, for one to eight rows."""

from __future__ import annotations

from types import ModuleType

from pytest_frt.impls._shared.seat_envelope import outside_envelope  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Quantise the projection."""
    refusal: Refusal | None = outside_envelope(IMPL, seat, scales)
    if refusal is not None:
        return refusal
    biases = [seat.weights["b"]] if "b" in seat.weights else []
    layer: nn.Module = kernel.int8_linear([seat.weights["w"].t()], biases)
    return layer


IMPL = Impl(
    name="frt_w8a16",
    structure="linear_proj",
    version=1,
    schemes=("w8a16_decode",),
    kernel="pytest-frt/w8a16-gemv",
    rows={"w8a16_decode": (1, 8)},
    variants={"bias": ("none", "add")},
    dims={"K": (1, 16384), "N": (1, 1048576)},
)
