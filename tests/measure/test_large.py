"""Sums stay exact above 2**24 elements, where float32 would stand still, and blocks reach beyond 2**31."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.measure.blocks import BLOCK_ELEMENTS, blocks
from pytest_frt.measure.metrics import host_metrics, seam_metrics

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
ROWS, WIDTH = 4100, 4097
"""Just over 2**24 elements, of which no more than one row exists."""


def repeated(value: float) -> Tensor:
    return torch.full((1, WIDTH), value).expand(ROWS, WIDTH)


def test_a_float32_sum_would_stand_still() -> None:
    assert torch.tensor(2.0**24) + torch.tensor(1.0) == 2.0**24
    assert ROWS * WIDTH > 2**24


def test_seam_sums_are_exact_above_2_to_the_24() -> None:
    result = seam_metrics(repeated(1.25), repeated(1.0), repeated(1.0), seat="s", case="real", output=0, limits=LIMITS)
    assert (result.rows, result.elements) == (ROWS, ROWS * WIDTH)
    for number, exact in ((result.slope, 1.25), (result.rel_l2, 0.25), (result.cosine, 1.0), (result.outliers, 1.0)):
        assert number == pytest.approx(exact, rel=1e-12)


def test_host_sums_are_exact_above_2_to_the_24() -> None:
    wave = torch.tensor([1.1, 0.0]).repeat(WIDTH)[:WIDTH].expand(ROWS, WIDTH)  # in float32 the square of 1.1 is rounded
    result = host_metrics(wave, repeated(1.1), "values", 0)
    assert result.cosine == pytest.approx(math.sqrt((WIDTH + 1) / 2 / WIDTH), rel=1e-12)


def test_blocks_reach_every_element_beyond_2_to_the_31() -> None:
    rows, width = 2**11 + 3, 2**20  # on the meta device, which has shapes and offsets and no memory
    seen = list(blocks(torch.empty(rows, width, dtype=torch.int8, device="meta")))
    assert sum(part.numel() for (part,) in seen) == rows * width > 2**31
    assert {part.dtype for (part,) in seen} == {torch.float64}
    assert max(part.numel() for (part,) in seen) <= BLOCK_ELEMENTS


def test_a_block_beyond_2_to_the_31_starts_where_it_should() -> None:
    whole = torch.empty(2**11 + 3, 2**20, dtype=torch.int8, device="meta")
    assert whole[2**11 + 2 :].storage_offset() == (2**11 + 2) * 2**20 > 2**31
