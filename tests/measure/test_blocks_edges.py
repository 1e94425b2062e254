"""Edges of blocks and of the two ratios of sums: whole rows, float64, and zero on either side."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_frt.measure import blocks
from pytest_frt.measure.blocks import TOTAL_ERROR, as_rows, cosine, relative


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((), (1, 1)), ((5,), (1, 5)), ((2, 5), (2, 5)), ((2, 3, 5), (6, 5)), ((2, 3, 4, 5), (24, 5)), ((0, 5), (0, 5))],
    ids=str,
)
def test_every_leading_axis_is_rows(shape: tuple[int, ...], rows: tuple[int, int]) -> None:
    assert as_rows(torch.zeros(shape)).shape == rows


@pytest.mark.parametrize(
    ("budget", "sizes"),
    [(8, [2, 2, 1]), (9, [2, 2, 1]), (12, [3, 2]), (20, [5]), (3, [1] * 5), (1, [1] * 5)],
    ids=["two_rows", "two_rows_and_a_bit", "three_rows", "all", "less_than_a_row", "one_element"],
)
def test_blocks_hold_whole_rows_once(monkeypatch: pytest.MonkeyPatch, budget: int, sizes: list[int]) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", budget)
    left, right = torch.arange(20.0).reshape(5, 4), torch.arange(20).reshape(5, 4)
    found = list(blocks.blocks(left, right))
    assert [len(one) for one, _ in found] == sizes
    assert all(one.dtype == other.dtype == torch.float64 for one, other in found)
    for side in (0, 1):
        assert torch.equal(torch.cat([pair[side] for pair in found]), left.double())


def test_a_column_of_single_elements_fills_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 4)
    assert [len(one) for (one,) in blocks.blocks(torch.zeros(5, 1))] == [4, 1]


def test_rows_without_elements_are_blocks_too() -> None:
    assert [one.shape for (one,) in blocks.blocks(torch.zeros(3, 0))] == [(3, 0)]
    assert list(blocks.blocks(torch.zeros(0, 3))) == []


def test_a_block_is_eight_mebibytes() -> None:
    assert blocks.BLOCK_ELEMENTS * torch.finfo(torch.float64).bits // 8 == 8 * 1024**2


@pytest.mark.parametrize(
    ("error", "norm", "share"),
    [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0), (1.0, 2.0, 0.5), (1e-9, 0.0, TOTAL_ERROR), (0.5, 0.25, 2.0), (3.0, 0.5, 6.0)],
)
def test_relative(error: float, norm: float, share: float) -> None:
    assert relative(error, norm) == share


def test_relative_keeps_a_nan() -> None:
    assert math.isnan(relative(math.nan, 1.0))
    assert relative(1.0, math.nan) == TOTAL_ERROR == 1.0


@pytest.mark.parametrize(
    ("dot", "left", "right", "value"),
    [(0.0, 0.0, 0.0, 1.0), (0.0, 4.0, 0.0, 0.0), (0.0, 0.0, 4.0, 0.0), (6.0, 4.0, 9.0, 1.0), (-3.0, 4.0, 9.0, -0.5)],
    ids=["both_zero", "right_zero", "left_zero", "same_direction", "opposite"],
)
def test_cosine(dot: float, left: float, right: float, value: float) -> None:
    assert cosine(dot, left, right) == value
