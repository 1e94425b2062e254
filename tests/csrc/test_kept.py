"""``kept_linear`` holds one input with its output and tells inputs by their bits; nobody else writes to what it has."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .conftest import K
from .test_layers import LAYOUTS

ROWS = 5
MARK = 7.0


def kept(kernel: ModuleType, part: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Return what a layer holds: nothing, or one input with its output."""
    found: list[tuple[Tensor, Tensor]] = kernel.held.take(part.handle, kernel.held.Kept).last
    return found


def remembered(kernel: ModuleType, part: nn.Module, x: Tensor) -> bool:
    """Return whether an input is answered from memory: what is held is marked first."""
    kept(kernel, part)[0][1].fill_(MARK)
    return bool((part(x) == MARK).all())


def changed(x: Tensor, at: int, bit: int) -> Tensor:
    """Return a copy with one bit of one number turned over."""
    codes = x.clone().view(torch.int32)
    codes.view(-1)[at] ^= -(2**31) if bit == 31 else 1 << bit
    return codes.view(torch.float32)


def shifted(x: Tensor, offset: int) -> Tensor:
    """Return a copy that lies so many elements behind a whole line of memory."""
    room = torch.empty(x.numel() + 32)
    first = -room.data_ptr() // 4 % 16 + offset
    return room[first : first + x.numel()].view(x.shape).copy_(x)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_every_layout_has_the_bits_of_a_linear(
    kernel: ModuleType, weights: list[Tensor], biases: list[Tensor], layout: Callable[[], Tensor], *, biased: bool
) -> None:
    bias, x = biases if biased else [], layout()
    part = kernel.kept_linear(weights, bias)
    wanted = F.linear(x, torch.cat(weights), torch.cat(bias) if bias else None)
    for _ in range(2):
        got = part(x)
        assert torch.equal(got, wanted)
        assert got.is_contiguous()


def test_equal_bits_elsewhere_are_answered_from_memory(kernel: ModuleType, weights: list[Tensor]) -> None:
    part, x = kernel.kept_linear(weights), torch.randn(1, ROWS, K)
    part(x)
    assert remembered(kernel, part, x.clone())


@pytest.mark.parametrize("bit", [0, 11, 23, 31], ids=["last_place", "middle", "exponent", "sign"])
@pytest.mark.parametrize("at", [0, ROWS * K // 2, ROWS * K - 1], ids=["first", "middle", "last"])
def test_one_other_bit_is_another_input(kernel: ModuleType, weights: list[Tensor], at: int, bit: int) -> None:
    part, x = kernel.kept_linear(weights), torch.randn(ROWS, K)
    part(x)
    assert not remembered(kernel, part, changed(x, at, bit))


def test_zeros_of_either_sign_differ(kernel: ModuleType, weights: list[Tensor]) -> None:
    part, x = kernel.kept_linear(weights), torch.zeros(ROWS, K)
    part(x)
    assert torch.equal(x, -x)
    assert not remembered(kernel, part, -x)


def test_nan_of_other_bits_is_another_input(kernel: ModuleType, weights: list[Tensor]) -> None:
    part, x = kernel.kept_linear(weights), torch.full((ROWS, K), math.nan)
    assert part(x).isnan().all()
    assert part(x).isnan().all()
    assert not remembered(kernel, part, changed(x, 3, 0))


@pytest.mark.parametrize("shape", [(1, ROWS, K), (ROWS, 1, K)], ids=str)
def test_other_axes_are_another_input(kernel: ModuleType, weights: list[Tensor], shape: tuple[int, ...]) -> None:
    part, x = kernel.kept_linear(weights), torch.randn(ROWS, K)
    part(x)
    assert not remembered(kernel, part, x.view(shape))


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("of", ["input", "weight"])
def test_every_alignment_has_the_bits_of_a_linear(kernel: ModuleType, of: str, rows: int) -> None:
    x, weight = torch.randn(rows, K), torch.randn(3 * K, K)
    for offset in range(16):
        given, own = (shifted(one, offset if name == of else 0) for name, one in (("input", x), ("weight", weight)))
        part = kernel.kept_linear([own])
        for one in (given, given.clone(), given):
            assert torch.equal(part(one), F.linear(one, own)), offset


def test_weight_that_lies_transposed_has_the_bits_of_a_linear(kernel: ModuleType) -> None:
    weight = torch.randn(K, 3 * K).t()
    part, x = kernel.kept_linear([weight]), torch.randn(ROWS, K)
    assert torch.equal(part(x), F.linear(x, weight))


def test_one_input_is_held_whatever_came_before(kernel: ModuleType, weights: list[Tensor]) -> None:
    part = kernel.kept_linear(weights)
    for rows in (1, 3, 40, 2):
        x = torch.randn(rows, K)
        part(x)
    ((own, output),) = kept(kernel, part)
    assert (own.shape, output.shape[0]) == (x.shape, 2)
    assert own.untyped_storage().nbytes() == x.nbytes + kernel.held.LINE


def test_layout_that_no_copy_has_is_not_held(kernel: ModuleType, weights: list[Tensor]) -> None:
    part = kernel.kept_linear(weights)
    part(torch.randn(K, ROWS).t())
    assert kept(kernel, part) == []


def test_input_that_is_written_to_meanwhile_spoils_no_memory(
    kernel: ModuleType, weights: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    part, x, linear = kernel.kept_linear(weights), torch.randn(ROWS, K), F.linear
    before = x.clone()

    def interrupted(given: Tensor, *held: Tensor) -> Tensor:
        x.zero_()  # what another thread may do between copy and matmul
        return linear(given, *held)

    with monkeypatch.context() as patch:
        patch.setattr(F, "linear", interrupted)
        part(x)
    assert torch.equal(part(before), linear(before, torch.cat(weights)))


def test_what_inference_mode_kept_serves_outside_of_it(kernel: ModuleType, weights: list[Tensor]) -> None:
    part, x = kernel.kept_linear(weights), torch.randn(ROWS, K)
    with torch.inference_mode():
        part(x)
    again = part(x)
    assert not again.is_inference()
    assert torch.equal(again, F.linear(x, torch.cat(weights)))
