"""Cases C07 to C10: no rows, one row, more rows than the tuned one, indices of 32 bits, scratch of the first call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.lab.candidate import _indexed
from pytest_frt.lab.seam import INDEX_LIMIT, largest_index
from pytest_frt.lab.units import BoundUnit
from pytest_frt.registry import Registry
from pytest_frt.seat.bind import BoundSeat

from .conftest import Forward, place

LINEAR = place("linear_proj")
SOUND = LINEAR.sound()
OUT = LINEAR.facts.dims["N"]
WIDEST = 262_144
"""Rows of the widest head that a shipped host has."""


def rows_of(x: Tensor) -> int:
    return x.shape[:-1].numel()


def nan_without_rows(x: Tensor) -> Tensor:
    return SOUND(x) if rows_of(x) else torch.full((1, OUT), torch.nan)


def other_branch(rows: int) -> Forward:
    return lambda x: SOUND(x) * (1.1 if rows_of(x) == rows else 1.0)


@pytest.mark.case("C07")
@pytest.mark.parametrize(
    ("planted", "reason"),
    [(nan_without_rows, "shape"), (other_branch(1), "gain"), (other_branch(2), "gain"), (other_branch(3), "reference")],
    ids=["none", "one", "two", "three"],
)
def test_c07_each_short_length_has_its_branch(planted: Forward, reason: str) -> None:
    assert LINEAR.said(planted) == reason


@pytest.mark.case("C08")
def test_c08_offset_of_32_bits_overflows() -> None:
    rows, width = 70_000, 40_000
    last = torch.tensor(rows - 1, dtype=torch.int32) * width  # what a kernel with int32 offsets computes
    assert int(last) < 0 < (rows - 1) * width
    assert largest_index((1, rows), {"K": 8, "N": width}) >= INDEX_LIMIT


@pytest.mark.case("C08")
def test_c08_no_shipped_impl_can_meet_an_offset_of_32_bits() -> None:
    for entry in Registry.load().impls.values():
        for scheme, rows in entry.impl.rows.items():
            assert largest_index(rows, {"N": WIDEST}) < INDEX_LIMIT, (entry.impl.name, scheme)


@pytest.mark.case("C08")
@pytest.mark.parametrize(("rows", "kept"), [(70_000_000, 0), (8, 1)], ids=["too_tall", "short"])
def test_c08_a_seat_that_could_meet_one_is_refused_at_bind(rows: int, kept: int) -> None:
    loaded: Any = SimpleNamespace(ref=SimpleNamespace(rows=(1, rows)))
    bound = BoundSeat(LINEAR.facts, nn.Module(), 63, (OUT,), (1, rows), "planted", "none")
    unit = _indexed(BoundUnit(loaded, (bound,), (), {}))
    assert len(unit.bound) == kept
    assert [refusal.reason for refusal in unit.refused] == ["index_width"] * (1 - kept)


@pytest.mark.case("C09")
@pytest.mark.parametrize("tuned", [1, 8])
def test_c09_right_for_the_tuned_row_count_alone(tuned: int) -> None:
    def planted(x: Tensor) -> Tensor:
        y = SOUND(x)
        return y if rows_of(x) in (0, tuned) else y.flatten(0, -2)[:1].expand(rows_of(x), OUT).clone().view(y.shape)

    assert LINEAR.said(planted) != ""


@pytest.mark.case("C10")
def test_c10_scratch_sized_by_the_first_call() -> None:
    scratch: list[Tensor] = []

    def planted(x: Tensor) -> Tensor:
        if not scratch:
            scratch.append(torch.zeros(rows_of(x), OUT))
        y, room = SOUND(x).flatten(0, -2), len(scratch[0])
        return torch.cat((y[:room], torch.zeros_like(y[room:]))).view(*x.shape[:-1], OUT)

    assert LINEAR.said(planted) in {"reference", "zeros"}
    scratch[:] = [torch.zeros(64, OUT)]
    assert LINEAR.said(planted) == ""
