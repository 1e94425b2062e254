"""Faults of quantisation: weights and activations that are not what the scheme says they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tests.mutants.entry import Fault
from tests.mutants.plan import Plan

E4M3_FNUZ = 240.0
"""Largest number of the format that is taken for e4m3fn, whose largest is 448."""


def weight_codes(name: str, quantise: Callable[[Tensor, int], Tensor]) -> Fault:
    """Quantise weights in another way."""
    return Fault(name, lambda plan: replace(plan, quantise=quantise))


def int8_per_tensor(w: Tensor, axis: int) -> Tensor:  # noqa: ARG001 (one scale serves all channels)
    """Round to int8 with one scale."""
    scale = w.abs().amax() / 127
    return (w / scale).round().clamp(-127, 127) * scale


def int8_truncated(w: Tensor, axis: int) -> Tensor:
    """Cut off where the scheme rounds."""
    others = [other for other in range(w.dim()) if other != axis % w.dim()]
    scale = w.abs().amax(dim=others, keepdim=True) / 127
    return (w / scale).trunc() * scale


def int4_channels(w: Tensor, axis: int) -> Tensor:
    """Round to half the bits."""
    others = [other for other in range(w.dim()) if other != axis % w.dim()]
    scale = w.abs().amax(dim=others, keepdim=True) / 7
    return (w / scale).round().clamp(-7, 7) * scale


def e4m3_plain(w: Tensor, axis: int) -> Tensor:  # noqa: ARG001 (no scale at all)
    """Round to e4m3 without a scale: most weights are then subnormal."""
    return w.to(torch.float8_e4m3fn).to(w.dtype)


def activation_scale(factor: float) -> Fault:
    """Use stale static scales."""

    def apply(plan: Plan) -> Plan:
        def tap(point: str, value: Tensor) -> Tensor:
            return plan.scheme.activation(value, factor * plan.scales.by_point[point])

        return replace(plan, tap=tap)

    return Fault(f"activation_scale_times_{factor:g}", apply)


def forgotten_scale() -> Fault:
    """Leave the product in units of the codes of one point."""

    def apply(plan: Plan) -> Plan:
        point = max(plan.scales.by_point)

        def tap(at: str, value: Tensor) -> Tensor:
            codes = plan.tap(at, value)
            return codes / plan.scales.by_point[at] if at == point else codes

        return replace(plan, tap=tap)

    return Fault("scale_never_applied", apply)


def saturating(top: float, beyond: float | None = None) -> Fault:
    """Saturate activation codes at another maximum than e4m3's 448, or make something else of what is larger.

    Args:
        top: Largest code kept.
        beyond: What larger codes become; None saturates.
    """

    def apply(plan: Plan) -> Plan:
        def tap(point: str, value: Tensor) -> Tensor:
            scale = plan.scales.by_point[point]
            codes = value / scale
            kept = plan.tap(point, codes.clamp(-top, top) * scale)
            return kept if beyond is None else torch.where(codes.abs() > top, beyond, kept)

        return replace(plan, tap=tap)

    return Fault(f"saturates_at_{top:g}" if beyond is None else f"over_{top:g}_becomes_{beyond:g}", apply)


def zero_point(off: int) -> Fault:
    """Subtract a zero point that is off."""

    def apply(plan: Plan) -> Plan:
        def tap(point: str, value: Tensor) -> Tensor:
            codes = plan.tap(point, value)
            span = float(value.max().clamp(min=0) - value.min().clamp(max=0)) if value.numel() else 0.0
            return codes + off * span / 127

        return replace(plan, tap=tap)

    return Fault(f"zero_point_off_by_{off}", apply)


def symmetric_codes() -> Fault:
    """Quantise activations without a zero point."""

    def apply(plan: Plan) -> Plan:
        def tap(_point: str, value: Tensor) -> Tensor:
            scale = value.abs().amax().clamp(min=1e-8) / 63 if value.numel() else torch.ones(())
            return (value / scale).round() * scale

        return replace(plan, tap=tap)

    return Fault("no_zero_point", apply)


def own_scale_per_row() -> Fault:
    """Quantise every row of a call by itself where one range serves the call."""

    def apply(plan: Plan) -> Plan:
        def tap(point: str, value: Tensor) -> Tensor:
            rows = value.reshape(-1, value.shape[-1])
            return torch.stack([plan.tap(point, row) for row in rows]).view(value.shape) if len(rows) else value

        return replace(plan, tap=tap)

    return Fault("range_of_each_row", apply)


def unquantised() -> Fault:
    """Skip the quantisation of activations: nearer to the truth, but not what the scheme says."""
    return Fault("activations_not_quantised", lambda plan: replace(plan, tap=lambda _point, value: value))
