"""Bug history, modulated norms: a style of two pieces is told from one of three, and the part is really run on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.seat import NotReplaced, SeatFacts
from pytest_frt.registry import load_impl
from pytest_frt.seat import kernels
from pytest_frt.seat.bind import BoundSeat, bind_unit
from pytest_frt.seat.discover import discover
from pytest_frt.seat.swap import attach

from .conftest import REGISTRY

WIDTH, CONDITION = 32, 16
PRODUCER = REGISTRY.structures["adaln_producer"].spec


class Modulated(nn.Module):
    """A norm whose pieces come from a condition, in the order given."""

    def __init__(self, *order: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(CONDITION, len(order) * WIDTH)
        self.norm, self.order = nn.LayerNorm(WIDTH, elementwise_affine=False), order

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        piece = dict(zip(self.order, self.linear(F.silu(cond)).chunk(len(self.order), -1), strict=True))
        y: Tensor = self.norm(x) * (1 + piece["scale"]) + piece["shift"]
        return y


def found(*order: str) -> tuple[nn.ModuleDict, tuple[SeatFacts, ...], tuple[NotReplaced, ...]]:
    model = nn.ModuleDict({"ada": Modulated(*order)}).eval()
    return model, *discover(model, [PRODUCER])


def bound(model: nn.Module, seat: SeatFacts, impl: str) -> BoundSeat:
    entry = REGISTRY.impls[f"adaln_producer/{impl}"]
    kernel = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    known: dict[str, Any] = {"scheme": "none", "scales": {}, "kernel": kernel, "rows": (1, 8)}
    (one,), _ = bind_unit(model, [seat], structure=PRODUCER, impl=load_impl(entry), **known)
    return one


@torch.no_grad()
def error(impl: str, **changes: str) -> float:
    """Attach a part to a host of two pieces, and return how far its answer lies from the host's."""
    model, (seat,), _ = found("scale", "shift")
    x, cond = torch.linspace(-2, 2, 4 * WIDTH).view(4, WIDTH), torch.linspace(-1, 1, CONDITION)[None]
    wanted = model["ada"](x, cond)
    with attach(model, [bound(model, replace(seat, variant={**seat.variant, **changes}), impl)]) as attachment:
        got = model["ada"](x, cond)
    assert [entry.served for entry in attachment.ledger.entries()] == [1]
    return float((got - wanted).abs().max())


IMPLS = sorted(entry.impl.name for entry in REGISTRY.impls.values() if entry.impl.structure == PRODUCER.name)


@pytest.mark.parametrize("impl", IMPLS)
def test_style_of_two_pieces_is_computed_as_the_host_does(impl: str) -> None:
    assert error(impl) < 1e-5
    assert error(impl, norm="rms") > 1e-2


@pytest.mark.parametrize("impl", IMPLS)
def test_style_of_two_pieces_taken_for_three_fails_in_its_first_call(impl: str) -> None:
    with pytest.raises(RuntimeError, match="size of tensor"):
        error(impl, style="scale_shift_gate")


@pytest.mark.parametrize(
    ("order", "word"),
    [(("shift", "scale"), "does not compute adaln_producer"), (("scale", "shift", "gate"), "fails on a probe")],
    ids=["other_order", "three_pieces"],
)
def test_other_pieces_are_no_seat(order: tuple[str, ...], word: str) -> None:
    _, seats, rest = found(*order)
    assert seats == ()
    assert any(word in row.reason for row in rest if row.path == "ada")
