"""Binds seats over e4m3 ops of published packages: weights in codes, static scales as one-element tensors.

Weight scales are powers of two, as the scheme has them. An op takes one scale for weights that are merged, so codes are
those of each slot alone and the ratio of two scales is moved to where it commutes with everything in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import Final

import torch
from torch import Tensor

from pytest_frt.sdk import BindSeat, Impl, Measured, Refusal, Scales

from .hub_ops import find, unbindable
from .hub_parts import HubOp, HubSiblings
from .seat_envelope import refuse

E4M3_MAX: Final = 448.0
LEAST: Final = 2.0**-126
"""The least scale whose reciprocal float32 holds exactly."""
LARGEST: Final = 2.0**126
LINEAR: Final = "bf16_fp8_linear_bias_bf16"
GATED: Final = {"gelu_tanh": "bf16_fp8_geglu_mlp_bf16", "silu": "bf16_fp8_swiglu_mlp_bf16"}
TWO_LAYER: Final = ("bf16_fp8_gelu_mlp_v2_bf16", "bf16_fp8_gelu_mlp_bf16")
"""The first adds the last bias before its sum is rounded."""


@dataclass(frozen=True, slots=True)
class Codes:
    """A slot as the ops take it.

    Attributes:
        codes: e4m3 ``[N, K]``, contiguous.
        scale: The power of two they are multiplied by.
    """

    codes: Tensor
    scale: float


def coded(weight: Tensor) -> Codes:
    """Quantise ``weight[N, K]`` with the least power of two that ``amax / 448`` does not exceed, zeros with 1."""
    wide = weight.detach().float()
    quotient = (wide.abs().amax() / E4M3_MAX).item()
    mantissa, exponent = math.frexp(max(quotient, LEAST) if quotient else 1.0)
    scale = math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)  # noqa: PLR2004 (an exact power of two)
    codes = (wide * (1.0 / scale)).clamp_(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return Codes(codes.contiguous(), scale)


def merged(parts: tuple[Codes, ...]) -> Tensor:
    """Return codes side by side along their outputs; torch joins bytes, not e4m3."""
    return torch.cat([part.codes.view(torch.uint8) for part in parts]).view(torch.float8_e4m3fn)


def _one(value: float, like: Tensor) -> Tensor:
    return torch.tensor([value], dtype=torch.float32, device=like.device)


def _beyond(impl: Impl, scales: dict[str, float]) -> Refusal | None:
    """Return a refusal for the first scale that float32 cannot multiply and divide by."""
    for name, value in scales.items():
        if not LEAST <= value <= LARGEST:
            op, limit = (">=", LEAST) if value < LEAST else ("<=", LARGEST)
            return refuse(
                "scales",
                f"scale {name} is {value:g}, {impl.name} takes {LEAST:g} to {LARGEST:g}",
                Measured(f"scale.{name}", value, op, limit, 1),
            )
    return None


def bind_fp8_gated(impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType) -> HubOp | Refusal:
    """Bind a gated feed-forward block: gate and up as one matmul with the scale of gate.

    ``up`` enters the block as a factor, so what its own scale differs by leaves through the scale of the hidden values.
    """
    if (refusal := unbindable(impl, seat, scales)) is not None:
        return refusal
    op = find(impl, kernel, GATED[seat.variant["activation"]])
    if isinstance(op, Refusal):
        return op
    gate, up, down = (coded(seat.weights[slot].t()) for slot in ("w_gate", "w_up", "w_down"))
    ratio = gate.scale / up.scale
    by_name = {
        "input": scales.by_point["x_after_norm"],
        "gate_up": gate.scale,
        "hidden": scales.by_point["act_after_mul"] * ratio,
        "down": down.scale / ratio,
    }
    if (refusal := _beyond(impl, by_name)) is not None:
        return refusal
    single = (_one(value, gate.codes) for value in by_name.values())
    return HubOp(op, (merged((gate, up)), down.codes, *single), seat.dims["D"])


def bind_fp8_two_layer(impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType) -> HubOp | Refusal:
    """Bind a biased two-layer block."""
    if (refusal := unbindable(impl, seat, scales)) is not None:
        return refusal
    op = find(impl, kernel, *TWO_LAYER)
    if isinstance(op, Refusal):
        return op
    up, down = (coded(seat.weights[slot]) for slot in ("w_fc1", "w_fc2"))
    by_name = {
        "input": scales.by_point["x_after_norm"],
        "up": up.scale,
        "hidden": scales.by_point["hidden_after_act"],
        "down": down.scale,
    }
    if (refusal := _beyond(impl, by_name)) is not None:
        return refusal
    biases = (seat.weights[slot].detach().clone() for slot in ("b_fc1", "b_fc2"))
    layers = (operand for pair in zip((up.codes, down.codes), biases, strict=True) for operand in pair)
    single = (_one(value, up.codes) for value in by_name.values())
    return HubOp(op, (*layers, *single), seat.dims["D"])


def bind_fp8_linear(impl: Impl, seat: BindSeat, scales: Scales, kernel: ModuleType) -> HubOp | Refusal:
    """Bind one projection; one without a bias gets zeros, since no op quantises its input and adds none."""
    siblings = bind_fp8_siblings(impl, seat, scales, kernel, slots={"w": "b"}, widths=("N",))
    return siblings if isinstance(siblings, Refusal) else siblings.merged


def bind_fp8_siblings(
    impl: Impl,
    seat: BindSeat,
    scales: Scales,
    kernel: ModuleType,
    *,
    slots: dict[str, str],
    widths: tuple[str, ...],
) -> HubSiblings | Refusal:
    """Bind projections of one input as one matmul with the scale of the first.

    Biases are divided, and what leaves is multiplied, by the ratio of the scales: a power of two, so exactly.

    Args:
        impl: The impl that binds.
        seat: The seat.
        scales: Its scales.
        kernel: The loaded package.
        slots: Matmul slot, stored ``[in, out]``, to bias slot.
        widths: Symbol of each width, in the order of the slots.
    """
    if (refusal := unbindable(impl, seat, scales)) is not None:
        return refusal
    op = find(impl, kernel, LINEAR)
    if isinstance(op, Refusal):
        return op
    parts = tuple(coded(seat.weights[slot].t()) for slot in slots)
    first = parts[0].scale
    factors = [part.scale / first for part in parts]
    ratios = {f"ratio of {slot}": factor for slot, factor in zip(slots, factors, strict=True)}
    by_name = {"input": scales.by_point["x"], "weight": first, **ratios}
    if (refusal := _beyond(impl, by_name)) is not None:
        return refusal
    biases = [
        _bias(seat, bias, part, factor) for bias, part, factor in zip(slots.values(), parts, factors, strict=True)
    ]
    single = (_one(value, parts[0].codes) for value in (by_name["input"], first))
    sizes = [seat.dims[width] for width in widths]
    return HubSiblings(HubOp(op, (merged(parts), torch.cat(biases), *single), sum(sizes)), sizes, factors)


def _bias(seat: BindSeat, slot: str, part: Codes, factor: float) -> Tensor:
    held = seat.weights.get(slot)
    if held is None:
        return torch.zeros(part.codes.shape[0], dtype=torch.bfloat16, device=part.codes.device)
    return held.detach() / factor
