"""Layouts hold equal values amid NaN; parts that read beyond, write beyond or mistake strides are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.lab.layouts import FEW, OFFSETS, WIDE, difference, layouts, misplaced
from pytest_frt.lab.seam_run import SeamRun
from pytest_frt.seat.bind import BoundSeat

ROWS, WIDTH = 3, 5
X = torch.arange(1.0, 1 + ROWS * WIDTH).view(ROWS, WIDTH)
LAID = {laid.name: laid for laid in layouts(X)}


def test_every_layout_holds_the_values_and_nan_around_them() -> None:
    assert {f"storage_offset_{offset}" for offset in OFFSETS} < LAID.keys()
    assert {LAID[f"storage_offset_{offset}"].x.storage_offset() for offset in OFFSETS} == set(range(16))
    for laid in LAID.values():
        assert torch.equal(laid.x, laid.twin)
        assert laid.twin.is_contiguous()
        assert laid.storage[-1].isnan()
    assert {0, 1} < {stride for laid in LAID.values() for stride in laid.x.stride()}


def conduct_of(forward: Callable[[Tensor], Any]) -> SeamRun:
    module = nn.Module()
    module.forward = forward
    facts = SeatFacts("toy", ModuleSeat("a"), {}, {"D": WIDTH}, {}, {}, "float32", {})
    run = SeamRun()
    x = torch.randn(36, WIDTH, generator=torch.Generator().manual_seed(0))
    run.part(BoundSeat(facts, module, WIDTH, (WIDTH,), (1, 8), "toy", "none"), [x], [], (1, 8))
    return run


def as_if_contiguous(x: Tensor) -> Tensor:
    return x.as_strided(x.shape, torch.empty(x.shape).stride()) * 2


def aligned_only(x: Tensor) -> Tensor:
    return x * (2 if x.storage_offset() % 4 == 0 else 3)


def stale_prefix() -> Callable[[Tensor], Tensor]:
    kept: list[Tensor] = []

    def forward(x: Tensor) -> Tensor:
        kept.append(x.flatten()[0].clone())
        return x + (kept[-2] if len(kept) > 1 else 0)

    return forward


def noisy(x: Tensor) -> Tensor:
    return x + 1e-6 * torch.rand_like(x)


def test_a_sound_part_repeats_itself_in_every_layout() -> None:
    (one,) = conduct_of(lambda x: x * 2).conduct.values()
    assert (one.repeat, one.runs, one.mates, one.mates_rows, one.raised) == (0.0, 3, 0.0, (1, 8), {})
    assert one.layouts == dict.fromkeys(LAID, 0.0)


def test_strides_taken_for_contiguous_show_in_every_layout_but_the_offsets() -> None:
    (one,) = conduct_of(as_if_contiguous).conduct.values()
    wrong = {name for name, value in one.layouts.items() if value > 0}
    assert wrong == {name for name in LAID if not name.startswith("storage_offset")}


def test_an_unaligned_load_shows_at_its_offsets() -> None:
    (one,) = conduct_of(aligned_only).conduct.values()
    wrong = {name for name, value in one.layouts.items() if value > 0}
    assert {f"storage_offset_{offset}" for offset in OFFSETS if offset % 4} <= wrong
    assert not wrong & {"storage_offset_0", "storage_offset_4"}


def test_a_refused_layout_is_named() -> None:
    run = conduct_of(lambda x: x.view(-1).view(x.shape) * 2)
    (one,) = run.conduct.values()
    assert "transposed" in one.raised
    assert run.faulty


@pytest.mark.parametrize(("forward", "carried"), [(stale_prefix(), True), (noisy, False)], ids=["stale", "noise"])
def test_what_changes_between_runs_is_no_poison(forward: Callable[[Tensor], Tensor], *, carried: bool) -> None:
    run = conduct_of(forward)
    (one,) = run.conduct.values()
    assert one.repeat > 0
    assert (one.carried, run.poison) == (carried, [])


def test_a_write_beside_the_input_is_a_mutation() -> None:
    def forward(x: Tensor) -> Tensor:
        behind = x.storage_offset() + x.numel()
        if behind < x.untyped_storage().nbytes() // 4:
            x.as_strided((1,), (1,), behind).fill_(1.0)
        return x * 2

    assert conduct_of(forward).mutated


def test_a_wide_seat_is_tried_at_few_layouts() -> None:
    module = nn.Module()
    module.forward = lambda x: x.repeat(*[1] * (x.dim() - 1), WIDE // WIDTH + 1)
    facts = SeatFacts("toy", ModuleSeat("a"), {}, {"D": WIDTH}, {}, {}, "float32", {})
    width, run = WIDTH * (WIDE // WIDTH + 1), SeamRun()
    run.part(BoundSeat(facts, module, WIDTH, (width,), (1, 8), "toy", "none"), [X], [], (1, 8))
    (one,) = run.conduct.values()
    assert set(one.layouts) == FEW < set(LAID)


def test_batch_mates_are_measured() -> None:
    (one,) = conduct_of(lambda x: x / x.abs().max()).conduct.values()
    assert one.mates > 0.1


OWN = torch.ones(ROWS, WIDTH)


@pytest.mark.parametrize(
    ("outputs", "fault"),
    [
        pytest.param((OWN,), "", id="own"),
        pytest.param(tuple(torch.ones(1, 6).split(3, -1)), "", id="halves_of_one_buffer"),
        pytest.param((torch.ones(WIDTH, ROWS).t(),), "", id="transposed"),
        pytest.param((torch.ones(0, WIDTH),), "", id="no_rows"),
        pytest.param((X,), "input", id="the_input"),
        pytest.param((X[:, :2],), "input", id="part_of_the_input"),
        pytest.param((torch.ones(1, WIDTH).expand(ROWS, WIDTH),), "one address", id="expanded"),
        pytest.param((OWN, OWN), "one address", id="one_tensor_twice"),
        pytest.param((torch.ones(8, WIDTH)[:ROWS],), "memory of 40", id="padded"),
    ],
)
def test_memory_behind_outputs(outputs: tuple[Tensor, ...], fault: str) -> None:
    said = misplaced(X, outputs)
    assert fault in said
    assert bool(said) is bool(fault)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("side", [0, 1])
def test_a_nan_on_one_side_is_a_total_difference(value: float, side: int) -> None:
    pair = [X.clone(), X.clone()]
    pair[side][1, 1] = value
    assert difference((pair[0],), (pair[1],)) == 1.0
    pair[1 - side][1, 1] = float("nan")
    assert difference((pair[0],), (pair[1],)) == (0.0 if value != value else 1.0)  # noqa: PLR0124
