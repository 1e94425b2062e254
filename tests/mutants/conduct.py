"""Faults of how a part behaves: what it keeps, shares, leaks or writes, and what it does to single rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tests.mutants.entry import Fault
from tests.mutants.plan import Forward, Outputs, rms_of

TALL = 8
"""Rows of the tallest call of a decode step."""
Change = Callable[[Tensor, Tensor], Tensor]


def tensors(value: Outputs) -> tuple[Tensor, ...]:
    """Return one output or several as a tuple."""
    return (value,) if isinstance(value, Tensor) else value


def like(value: Outputs, outputs: tuple[Tensor, ...]) -> Outputs:
    return outputs[0] if isinstance(value, Tensor) else outputs


def around(name: str, wrap: Callable[[Forward], Forward]) -> Fault:
    """Wrap the finished part."""
    return Fault(name, lambda plan: replace(plan, around=wrap))


def each(name: str, change: Change) -> Fault:
    """Change every output, given it and ``x``."""

    def wrap(forward: Forward) -> Forward:
        def call(x: Tensor) -> Outputs:
            value = forward(x)
            return like(value, tuple(change(y, x) for y in tensors(value)))

        return call

    return around(name, wrap)


def one(name: str, index: int, change: Change) -> Fault:
    """Change one output of several."""

    def wrap(forward: Forward) -> Forward:
        def call(x: Tensor) -> Outputs:
            found = list(tensors(forward(x)))
            found[index] = change(found[index], x)
            return tuple(found)

        return call

    return around(name, wrap)


def _rows(change: Callable[[Tensor], Tensor]) -> Change:
    """Apply a change to a copy of ``y[R, N]``."""

    def apply(y: Tensor, _x: Tensor) -> Tensor:
        flat = y.reshape(-1, y.shape[-1]).clone()
        return change(flat).reshape(y.shape) if len(flat) else y

    return apply


def _set(y: Tensor, where: object, value: Tensor | float) -> Tensor:
    y[where] = value  # type: ignore[index]
    return y


def in_tall_calls(name: str, change: Callable[[Tensor], Tensor]) -> Fault:
    """Apply a change to a copy of ``y[R, N]`` where a call has ``TALL`` rows or more."""
    return each(name, _rows(lambda y: change(y) if len(y) >= TALL else y))


def swap_outputs(first: int, second: int) -> Fault:
    """Return two outputs in each other's place."""

    def wrap(forward: Forward) -> Forward:
        def call(x: Tensor) -> Outputs:
            found = list(tensors(forward(x)))
            found[first], found[second] = found[second], found[first]
            return tuple(found)

        return call

    names = "qkv"
    return around(f"{names[first]}_and_{names[second]}_swapped", wrap)


def heads_permuted(width: int) -> Change:
    """Exchange the first two groups of columns."""

    def change(y: Tensor, _x: Tensor) -> Tensor:
        return torch.cat((y[..., width : 2 * width], y[..., :width], y[..., 2 * width :]), -1)

    return change


def interleaved(y: Tensor, _x: Tensor) -> Tensor:
    """Order columns as ``[N / 2, 2]`` where the host has ``[2, N / 2]``."""
    return y.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


GAIN = each("one_percent_gain", lambda y, _x: 1.01 * y)
SMALL_GAIN = each("half_percent_gain", lambda y, _x: 1.005 * y)
OFFSET = each("offset_of_one_percent", lambda y, _x: y + 0.01 * rms_of(y))
NEGATED = each("sign_flipped", lambda y, _x: -y)
ZEROS = each("zeros", lambda y, _x: torch.zeros_like(y))
ONE_NAN = each("one_nan", _rows(lambda y: _set(y, (-1, -1), float("nan"))))
NAN_SWALLOWED = each("overflow_becomes_zero", lambda y, _x: torch.where(y.abs() > 4 * rms_of(y), 0, y))
FIRST_ROW_REPEATED = each("first_row_repeated", _rows(lambda y: _set(y, slice(1, 2), y[:1])))
LAST_ROW_ZERO = each("last_row_zero", _rows(lambda y: _set(y, -1, 0.0)))
LAST_ROWS_CUT = each("rows_cut_to_even", lambda y, _x: y[..., : y.shape[-2] // 2 * 2, :] if y.dim() > 1 else y)
ROWS_REVERSED = each("rows_reversed", _rows(lambda y: y.flip(0)))
COLUMNS_ROLLED = each("columns_shifted_by_one", lambda y, _x: y.roll(1, -1))
LAST_COLUMN_STALE = each("last_column_copied", _rows(lambda y: _set(y, (..., -1), y[:, -2])))
INTERLEAVED = each("halves_interleaved", interleaved)
HEADS = each("two_heads_exchanged", heads_permuted(8))
CLIPPED = each("outputs_clipped_at_3_sigma", lambda y, _x: y.clamp(-3 * rms_of(y), 3 * rms_of(y)))
DOUBLE = each("output_in_float64", lambda y, _x: y.double())
HALF = each("output_in_float16", lambda y, _x: y.half())
HALF_AND_BACK = each("output_through_float16", lambda y, _x: y.half().to(y.dtype))
FLAT = each("leading_axes_flattened", lambda y, _x: y.reshape(-1, y.shape[-1]))
NARROW = each("last_column_missing", lambda y, _x: y[..., :-1])
TWICE = around("output_returned_twice", lambda forward: lambda x: (*tensors(forward(x)), tensors(forward(x))[0]))
ONE_ELEMENT = in_tall_calls("one_element_off_by_0.45_rms", lambda y: _set(y, (-1, 0), y[-1, 0] + 0.45 * rms_of(y)))
ONE_ROW = in_tall_calls("one_row_of_eight_3_percent_off", lambda y: _set(y, -1, 1.03 * y[-1]))
