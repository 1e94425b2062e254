"""What a part does to tensors that are not its own, seen at the seam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.lab.seam_run import HELD_CALLS, SeamRun, misfit, same_bits
from pytest_frt.seat.bind import BoundSeat

NAN = float("nan")


def bound(forward: Callable[[Tensor], Any], outputs: tuple[int, ...] = (4,)) -> BoundSeat:
    module = nn.Module()
    module.forward = forward
    facts = SeatFacts("toy", ModuleSeat("a"), {}, {"D": 4}, {}, {}, "float32", {})
    return BoundSeat(facts, module, 4, outputs, (1, 8), "toy", "none")


def run(forward: Callable[[Tensor], Any]) -> SeamRun:
    seam_run = SeamRun()
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    seam_run.part(bound(forward), [x], [("edge", torch.ones(3, 4)), ("none", torch.ones(0, 4))], (1, 8))
    return seam_run


def halved(x: Tensor) -> Tensor:
    y = x * 2
    x *= 0.5
    return y


def ring(count: int) -> Callable[[Tensor], Tensor]:
    buffers: dict[torch.Size, list[Tensor]] = {}

    def forward(x: Tensor) -> Tensor:
        mine = buffers.setdefault(x.shape, [torch.empty_like(x) for _ in range(count)])
        mine.append(mine.pop(0))
        return mine[0].copy_(x)

    return forward


def from_two_rows(forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Compute one row anew, and taller calls as given."""
    return lambda x: x * 1.0 if x.shape[0] == 1 else forward(x)


def test_sound_part_leaves_its_outputs_and_no_fault() -> None:
    seam_run = run(lambda x: x * 2)
    assert not seam_run.faulty
    assert {key: tuple(value.shape) for key, value in seam_run.outputs.items()} == {
        "real/a": (20, 4),
        "case/edge/a": (3, 4),
        "case/none/a": (0, 4),
    }


@pytest.mark.parametrize(
    ("forward", "attribute"),
    [
        (halved, "mutated"),
        (ring(1), "aliased"),
        (ring(HELD_CALLS - 1), "aliased"),
        (from_two_rows(ring(1)), "aliased"),
        (lambda x: x + torch.empty(4096)[:1].nan_to_num(1.0), "poison"),
        (lambda x: x.double(), "shapes"),
        (lambda x: (x, x), "shapes"),
        (lambda _: None, "shapes"),
    ],
    ids=[
        "mutates",
        "one_buffer",
        "seven_buffers",
        "one_buffer_from_two_rows",
        "fresh_memory",
        "double",
        "two_outputs",
        "nothing",
    ],
)
def test_fault_is_seen_and_nothing_else_is_blamed(forward: Callable[[Tensor], Any], attribute: str) -> None:
    seam_run = run(forward)
    faults = {name for name in ("mutated", "aliased", "poison", "shapes") if getattr(seam_run, name)}
    assert faults == {attribute}
    assert seam_run.faulty


def test_nan_is_no_fault_of_conduct() -> None:
    assert not run(lambda x: x * NAN).faulty


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (torch.tensor([NAN]), torch.tensor([NAN]), True),
        (torch.tensor([0.0]), torch.tensor([-0.0]), False),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), False),
        (torch.ones(2, 1), torch.ones(1, 2), False),
        (torch.ones(4, 4).t(), torch.ones(4, 4), True),
        (torch.ones(0, 4), torch.ones(0, 4), True),
        (torch.ones(1, 4).expand(3, 4), torch.ones(3, 4), True),
    ],
    ids=["nan", "signed_zero", "dtype", "shape", "transposed", "empty", "expanded"],
)
def test_bits(left: Tensor, right: Tensor, same: bool) -> None:  # noqa: FBT001 (a column of the table)
    assert same_bits(left, right) == same


def test_misfit_names_both() -> None:
    x = torch.ones(2, 4)
    assert misfit(bound(nn.Identity()), x, x) == ""
    assert misfit(bound(nn.Identity(), outputs=(4, 2)), x, (x, x[:, :2])) == ""
    assert misfit(bound(nn.Identity()), x, x[:, :2]) == "[((2, 2), torch.float32)] for [((2, 4), torch.float32)]"
