"""float32 layer norm as one op over copies of scale and shift."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.seat_envelope import outside_envelope  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, KernelUnavailable, Refusal, Scales

LAYERS: Final = {"none": "layer_norm"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Hold the vectors of the norm.

    Raises:
        KernelUnavailable: this build of torch lacks what the layer needs.
    """
    refusal: Refusal | None = outside_envelope(IMPL, seat, scales)
    if refusal is not None:
        return refusal
    layer = LAYERS[seat.scheme]
    if reason := kernel.unsupported(layer):
        raise KernelUnavailable(f"{IMPL.kernel}: {reason}", hint="run on a machine whose torch build has it")
    bound: nn.Module = getattr(kernel, layer)(seat.weights["w"], seat.weights["b"], eps=seat.constants["eps"])
    return bound


IMPL = Impl(
    name="torch_held",
    structure="norm_fused",
    version=1,
    schemes=("none",),
    kernel="pytest-frt/frt-cpu",
    rows={"none": (1, 6256)},
    variants={"norm": ("layer",)},
    dims={"D": (2, 16384)},
)
