"""Turns slots of a seat into packed layers of the kernel, by scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final, cast

import torch
from torch import Tensor, nn

from pytest_frt.sdk import BindSeat, Impl, KernelUnavailable, Measured, Refusal, Scales

from .seat_envelope import extremes, outside_envelope, refuse

BF16_MAX: Final = torch.finfo(torch.bfloat16).max
LARGEST: Final = {
    "fp16_linear": 65504.0,  # the pack clamps what is larger
    "bf16_linear": BF16_MAX,  # rounding makes an infinity of what is larger
    "int4_linear": BF16_MAX / 2,  # the range of a group that holds it with either sign must stay finite
}
STATIC_LAYER: Final = "fp8_linear"
ROWS_LAYER: Final = "fp32_linear"


@dataclass(frozen=True, slots=True)
class Packer:
    """A seat that passed its impl's envelope, and the kernel layer that runs its scheme.

    Attributes:
        seat: The seat.
        scales: Its certified scales.
        kernel: The loaded kernel.
        layer: Name of the kernel's layer.
        transposed: True when matmul slots are stored ``[in, out]``.
    """

    seat: BindSeat
    scales: Scales
    kernel: ModuleType
    layer: str
    transposed: bool

    def pack(self, slots: Sequence[str], point: str, biases: Sequence[str] = ()) -> nn.Module:
        """Return one layer over the given matmul slots, side by side along their outputs.

        Args:
            slots: Matmul slots that read the same input.
            point: Calibration point of that input.
            biases: Bias slots, one per matmul slot; names the seat lacks are left out.
        """
        weights = [self._out_in(self.seat.weights[slot]) for slot in slots]
        held = [self.seat.weights[bias] for bias in biases if bias in self.seat.weights]
        options: dict[str, float] = {}
        if self.layer == STATIC_LAYER:
            options["input_scale"] = self.scales.by_point[point]
        elif self.layer == ROWS_LAYER:
            options["rows"] = self.seat.rows[1]
        return cast("nn.Module", getattr(self.kernel, self.layer)(weights, held, **options))

    def _out_in(self, weight: Tensor) -> Tensor:
        return weight.t() if self.transposed else weight


def packer(
    impl: Impl,
    seat: BindSeat,
    scales: Scales,
    kernel: ModuleType,
    *,
    layers: Mapping[str, str],
    transposed: bool,
) -> Packer | Refusal:
    """Check the envelope and choose the kernel layer.

    Args:
        impl: The impl that binds.
        seat: The seat.
        scales: Its scales.
        kernel: The loaded kernel.
        layers: Scheme to kernel layer.
        transposed: True when the structure stores matmul slots ``[in, out]``.

    Raises:
        KernelUnavailable: this build of torch lacks what the layer needs.
    """
    if (refusal := outside_envelope(impl, seat, scales)) is not None:
        return refusal
    layer = layers[seat.scheme]
    if reason := kernel.unsupported(layer):
        raise KernelUnavailable(f"{impl.kernel}: {reason}", hint="run on a machine whose torch build has it")
    if layer in LARGEST and (refusal := _beyond(impl, seat, LARGEST[layer])) is not None:
        return refusal
    return Packer(seat, scales, kernel, layer, transposed)


def _beyond(impl: Impl, seat: BindSeat, limit: float) -> Refusal | None:
    for slot, weight in seat.weights.items():
        low, high = extremes(weight)
        largest = max(-low, high)
        if weight.dim() > 1 and largest > limit:
            return refuse(
                "envelope",
                f"the largest weight of slot {slot} is {largest:g}, {impl.name} takes up to {limit:g}",
                Measured(f"amax.{slot}", largest, "<=", limit, weight.numel()),
            )
    return None
