"""Faults of memory: what a part keeps from call to call, reads beside its input, shares, or writes to."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import torch
from torch import Tensor

from tests.mutants.conduct import around, like, tensors
from tests.mutants.entry import Fault
from tests.mutants.plan import Forward, Outputs, Plan


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
        return like(value, tuple(out))

    return call


def _by_shape(forward: Forward) -> Forward:
    kept: dict[torch.Size, Outputs] = {}

    def call(x: Tensor) -> Outputs:
        if x.shape not in kept:
            kept[x.shape] = forward(x)
        value = kept[x.shape]
        return like(value, tuple(y.clone() for y in tensors(value)))

    return call


def _one_buffer(forward: Forward) -> Forward:
    buffers: dict[tuple[int, torch.Size], Tensor] = {}

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        out = [buffers.setdefault((i, y.shape), torch.empty_like(y)).copy_(y) for i, y in enumerate(tensors(value))]
        return like(value, tuple(out))

    return call


def _padding(forward: Forward) -> Forward:
    """Pad rows to a multiple of four with what the allocator hands out, and let one of them into the last row."""

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        junk = torch.empty(4096)[: x.shape[-1]].nan_to_num(0.0).clamp(-1, 1)
        return like(value, tuple(y + 1e-3 * junk.mean() if y.numel() else y for y in tensors(value)))

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
        return like(value, tuple(mixed))

    return call


def _drifts(forward: Forward) -> Forward:
    calls = count()

    def call(x: Tensor) -> Outputs:
        value = forward(x)
        factor = 1.0 + 1e-3 * next(calls)
        return like(value, tuple(factor * y for y in tensors(value)))

    return call


def _random(forward: Forward) -> Forward:
    def call(x: Tensor) -> Outputs:
        value = forward(x)
        return like(value, tuple(y * (1 + 1e-5 * torch.randn(())) for y in tensors(value)))

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
        return like(value, tuple(y + 0.02 * _mean(y) for y in tensors(value)))

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
        return like(value, tuple(y * (top / top) for y in tensors(value)))

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
