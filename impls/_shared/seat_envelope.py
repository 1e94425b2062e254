"""Whether a seat lies in what an impl declares. The first fault is returned with its number and its limit."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from pytest_frt.sdk import BindSeat, Impl, Measured, Refusal, Scales


def refuse(reason: str, detail: str, *measured: Measured) -> Refusal:
    """Return a refusal of the bind stage."""
    return Refusal("bind", reason, detail, measured=measured)


def extremes(tensor: Tensor) -> tuple[float, float]:
    """Return the least and the greatest number of a tensor; a NaN anywhere is both.

    Takes no temporary of the tensor's size: slots are often transposed views of a vocabulary head.
    """
    dense = tensor.detach() if tensor.is_contiguous() else tensor.detach().transpose(0, -1)
    low, high = torch.aminmax(dense)
    return low.item(), high.item()


def outside_envelope(impl: Impl, seat: BindSeat, scales: Scales) -> Refusal | None:
    """Return why ``impl`` cannot take ``seat``, or None.

    Reasons are ``envelope`` (structure, scheme, variant, dtype, rows, dims), ``scales`` (a point without one) and
    ``nonfinite`` (a weight with NaN or Inf).
    """
    checks = (_words(impl, seat), _rows(impl, seat), _dims(impl, seat), _scales(impl, seat, scales), _weights(seat))
    return next((refusal for check in checks for refusal in check), None)


def _words(impl: Impl, seat: BindSeat) -> Iterator[Refusal]:
    allowed = {
        "structure": (seat.structure, (impl.structure,)),
        "scheme": (seat.scheme, impl.schemes),
        "dtype": (seat.dtype, impl.dtypes),
        **{axis: (seat.variant.get(axis, ""), values) for axis, values in impl.variants.items()},
    }
    for axis, (value, values) in allowed.items():
        if value not in values:
            yield refuse("envelope", f"{axis} is {value!r}, {impl.name} takes {', '.join(values)}")


def _rows(impl: Impl, seat: BindSeat) -> Iterator[Refusal]:
    low, high = impl.rows.get(seat.scheme, (1, 0))
    for rows, op, limit, broken in (
        (seat.rows[0], ">=", low, seat.rows[0] < low),
        (seat.rows[1], "<=", high, seat.rows[1] > high),
    ):
        if broken:
            yield refuse(
                "envelope",
                f"the seat is called with {seat.rows[0]} to {seat.rows[1]} rows, {impl.name} takes {low} to {high}",
                Measured("rows", rows, op, limit, 1),
            )


def _dims(impl: Impl, seat: BindSeat) -> Iterator[Refusal]:
    present = seat.dims  # without the sizes of slots that its variant lacks
    for symbol, (low, high) in impl.dims.items():
        size = present.get(symbol, low)
        if not low <= size <= high:
            op, limit = (">=", low) if size < low else ("<=", high)
            yield refuse(
                "envelope",
                f"{symbol} is {size}, {impl.name} takes {low} to {high}",
                Measured(f"dims.{symbol}", size, op, limit, 1),
            )
    for symbol, divisor in impl.multiples.items():
        if remainder := present.get(symbol, divisor) % divisor:
            yield refuse(
                "envelope",
                f"{symbol} is {present[symbol]}, {impl.name} takes multiples of {divisor}",
                Measured(f"dims.{symbol} % {divisor}", remainder, "<=", 0, 1),
            )


def _scales(impl: Impl, seat: BindSeat, scales: Scales) -> Iterator[Refusal]:
    for point in impl.points.get(seat.scheme, ()):
        scale = scales.by_point.get(point)
        if scale is None:
            yield refuse("scales", f"scheme {seat.scheme} needs a calibrated scale at point {point}, there is none")
        elif not 0.0 < scale < float("inf"):
            yield refuse(
                "scales",
                f"the scale {scale} at point {point} is not positive and finite",
                Measured(f"scale.{point}", scale, ">=", 0.0, 1),
            )


def _weights(seat: BindSeat) -> Iterator[Refusal]:
    for slot, tensor in seat.weights.items():
        if tensor.numel() and not all(math.isfinite(end) for end in extremes(tensor)):
            bad = tensor.numel() - int(tensor.detach().isfinite().sum())
            yield refuse(
                "nonfinite",
                f"slot {slot} holds {bad} NaN or Inf of {tensor.numel()} numbers",
                Measured(f"nonfinite.{slot}", bad, "<=", 0, tensor.numel()),
            )
