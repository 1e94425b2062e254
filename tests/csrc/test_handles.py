"""Packed weights live exactly as long as their layer, and cannot be copied or confused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from .conftest import K, Layer, N

Op = Callable[[Tensor, Any, int], Tensor]


def test_pack_is_freed_with_its_layer(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    part = layer.build(kernel, weights, [])
    handle = part.handle
    assert handle in kernel.held._TABLE
    del part
    assert handle not in kernel.held._TABLE


def test_call_through_a_freed_handle_is_refused(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    part = layer.build(kernel, weights, [])
    op, handle = cast("Op", part._op), part.handle
    del part
    assert layer.build(kernel, weights, []).handle != handle
    with pytest.raises(RuntimeError, match="its layer was freed"):
        op(torch.randn(2, K), handle, N)


def test_handle_of_another_op_is_refused(kernel: ModuleType, weights: list[Tensor]) -> None:
    half, plain = kernel.fp16_linear(weights), kernel.plain_linear(weights)
    with pytest.raises(RuntimeError, match="holds Plain, the op needs Fp16Packed"):
        half._op(torch.randn(2, K), plain.handle, N)


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_copy_is_refused_and_the_original_lives(
    kernel: ModuleType, layer: Layer, weights: list[Tensor], copying: object
) -> None:
    part = layer.build(kernel, weights, [])
    x = torch.randn(2, K)
    kept = part(x)
    with pytest.raises(TypeError, match="packed weights cannot be copied"):
        copying(part)  # type: ignore[operator]
    assert torch.equal(part(x), kept)


@pytest.mark.parametrize(
    "change",
    [lambda part: part.half(), lambda part: part.double(), lambda part: part.to("meta")],
    ids=("half", "double", "meta"),
)
def test_module_wide_casts_change_nothing(
    kernel: ModuleType, layer: Layer, weights: list[Tensor], change: object
) -> None:
    part = layer.build(kernel, weights, [])
    x = torch.randn(2, K)
    kept = part(x)
    change(part)  # type: ignore[operator]
    assert torch.equal(part(x), kept)


def test_size_in_bytes_is_reported(kernel: ModuleType, weights: list[Tensor]) -> None:
    sizes = [kernel.fp32_linear(weights, rows=8).nbytes, kernel.fp16_linear(weights).nbytes]
    sizes += [kernel.bf16_linear(weights).nbytes, kernel.int4_linear(weights).nbytes]
    assert sizes == [4 * N * K, 2 * N * K, 2 * N * K, N * K // 2 + 2 * 2 * N * K // 32]
