"""Faults of how a part behaves: what it keeps, shares, leaks or writes, and what it does to single rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import torch
from torch import Tensor

from tests.mutants.entry import Fault
from tests.mutants.plan import Forward, Outputs, Plan, rms_of

Change = Callable[[Tensor, Tensor], Tensor]


def tensors(value: Outputs) -> tuple[Tensor, ...]:
    """Return one output or several as a tuple."""
    return (value,) if isinstance(value, Tensor) else value


def _like(value: Outputs, outputs: tuple[Tensor, ...]) -> Outputs:
    return outputs[0] if isinstance(value, Tensor) else outputs


def around(name: str, wrap: Callable[[Forward], Forward]) -> Fault:
    """Wrap the finished part."""
    return Fault(name, lambda plan: replace(plan, around=wrap))


def each(name: str, change: Change) -> Fault:
    """Change every output, given it and ``x``."""

    def wrap(forward: Forward) -> Forward:
        def call(x: Tensor) -> Outputs:
            value = forward(x)
            return _like(value, tuple(change(y, x) for y in tensors(value)))

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
SIGN_OF_ZERO = each("sign_of_zero_lost", lambda y, _x: y + 0.0)
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
CLIPPED = each("outputs_clipped_at_6_sigma", lambda y, _x: y.clamp(-6 * rms_of(y), 6 * rms_of(y)))
DOUBLE = each("output_in_float64", lambda y, _x: y.double())
HALF = each("output_in_float16", lambda y, _x: y.half())
HALF_AND_BACK = each("output_through_float16", lambda y, _x: y.half().to(y.dtype))
FLAT = each("leading_axes_flattened", lambda y, _x: y.reshape(-1, y.shape[-1]))
NARROW = each("last_column_missing", lambda y, _x: y[..., :-1])
TWICE = around("output_returned_twice", lambda forward: lambda x: (*tensors(forward(x)), tensors(forward(x))[0]))


def _stale_last_row(forward: Forward) -> Forward:
    kept: list[Tensor] = []

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        out = []
        fresh = [y.reshape(-1, y.shape[-1])[-1:].clone() for y in tensors(value)]
        for i, y in enumerate(tensors(value)):
            flat = y.reshape(-1, y.shape[-1]).clone()
            flat[-1:] = kept[i] if kept and len(flat) else fresh[i]
            out.append(flat.reshape(y.shape))
        if x.numel():
            kept[:] = fresh
        return _like(value, tuple(out))

    return call


def _by_shape(forward: Forward) -> Forward:
    kept: dict[torch.Size, Outputs] = {}

    def call(x: Tensor) -> Outputs:
        if x.shape not in kept:
            kept[x.shape] = forward(x)
        value = kept[x.shape]
        return _like(value, tuple(y.clone() for y in tensors(value)))

    return call


def _one_buffer(forward: Forward) -> Forward:
    buffers: dict[tuple[int, torch.Size], Tensor] = {}

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        out = [buffers.setdefault((i, y.shape), torch.empty_like(y)).copy_(y) for i, y in enumerate(tensors(value))]
        return _like(value, tuple(out))

    return call


def _padding(forward: Forward) -> Forward:
    """Pad rows to a multiple of four with what the allocator hands out, and let one of them into the last row."""

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        junk = torch.empty(4096)[: x.shape[-1]].nan_to_num(0.0).clamp(-1, 1)
        return _like(value, tuple(y + 1e-3 * junk.mean() if y.numel() else y for y in tensors(value)))

    return call


def _padding_row(forward: Forward) -> Forward:
    """Pad odd calls by repeating the first row, and average the last two rows of the padded call."""

    def call(x: Tensor) -> Outputs:
        flat = x.reshape(-1, x.shape[-1])
        if len(flat) % 2 == 0:
            return forward(x)
        value = forward(torch.cat((flat, flat[:1])))
        mixed = []
        for y in tensors(value):
            body = y[:-1].clone()
            body[-1] = 0.5 * (y[-2] + y[-1])
            mixed.append(body.reshape(*x.shape[:-1], y.shape[-1]))
        return _like(value, tuple(mixed))

    return call


def _drifts(forward: Forward) -> Forward:
    calls = count()

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        factor = 1.0 + 1e-3 * next(calls)
        return _like(value, tuple(factor * y for y in tensors(value)))

    return call


def _random(forward: Forward) -> Forward:
    def call(x: Tensor) -> Outputs:
        value = forward(x)
        return _like(value, tuple(y * (1 + 1e-5 * torch.randn(())) for y in tensors(value)))

    return call


def _writes_input(forward: Forward) -> Forward:
    def call(x: Tensor) -> Outputs:
        value = forward(x)
        if x.numel():
            x.reshape(-1)[:1].add_(1.0)
            x.view_as(x).mul_(0.5)
        return value

    return call


def _leaks_rows(forward: Forward) -> Forward:
    def call(x: Tensor) -> Outputs:
        value = forward(x)
        return _like(value, tuple(y + 0.02 * _mean(y) for y in tensors(value)))

    return call


def _mean(y: Tensor) -> Tensor:
    flat = y.reshape(-1, y.shape[-1])
    return flat.mean(0) if len(flat) > 1 else torch.zeros(y.shape[-1])


def _assumes_dense(forward: Forward) -> Forward:
    """Read the storage as if every input were dense and began at its first element."""

    def call(x: Tensor) -> Outputs:
        if x.is_contiguous() and not x.storage_offset():
            return forward(x)
        dense = torch.as_strided(x, (min(x.numel(), x.untyped_storage().nbytes() // 4),), (1,), 0)
        whole = dense.repeat(-(-x.numel() // max(dense.numel(), 1)))[: x.numel()]
        return forward(whole.reshape(x.shape))

    return call


def _aligned_reads(forward: Forward) -> Forward:
    """Round the storage offset down to 64 bytes, as a vector load that ignores alignment does."""

    def call(x: Tensor) -> Outputs:
        offset = x.storage_offset()
        if offset % 16 and x.is_contiguous() and offset < 16:
            return forward(torch.as_strided(x, x.shape, x.stride(), 0))
        return forward(x)

    return call


def _zero_row_is_nan(forward: Forward) -> Forward:
    """Divide by the largest element of each row."""

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        top = x.abs().amax(-1, keepdim=True) if x.numel() else torch.ones(())
        return _like(value, tuple(y * (top / top) for y in tensors(value)))

    return call


STALE_LAST_ROW = around("last_row_of_the_call_before", _stale_last_row)
BY_SHAPE = around("answer_kept_by_shape", _by_shape)
ONE_BUFFER = around("one_output_buffer", _one_buffer)
FRESH_MEMORY = around("reads_unwritten_padding", _padding)
PADDING_ROW = around("padding_row_leaks", _padding_row)
DRIFTS = around("drifts_with_the_call_count", _drifts)
RANDOM = around("random_output", _random)
WRITES_INPUT = around("writes_its_input", _writes_input)
LEAKS_ROWS = around("rows_leak_into_each_other", _leaks_rows)
ASSUMES_DENSE = around("strides_ignored", _assumes_dense)
ALIGNED_READS = around("storage_offset_rounded_down", _aligned_reads)
ZERO_ROW_IS_NAN = around("zero_row_becomes_nan", _zero_row_is_nan)


def writes_host(slot: str) -> Fault:
    """Write to the first element of the host's own tensor, past every version counter; what is returned stays right."""

    def change(plan: Plan) -> Plan:
        def wrap(forward: Forward) -> Forward:
            def call(x: Tensor) -> Outputs:
                plan.host[slot].data.reshape(-1)[:1].add_(1.0)
                return forward(x)

            return call

        return replace(plan, around=wrap)

    return Fault(f"writes_to_{slot}_of_the_host", change)
