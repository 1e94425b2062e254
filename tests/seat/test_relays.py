"""Pairs whose consumers read what their producer returned: a modulated norm and the projections behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.evidence import LedgerEntry
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.sdk import Impl
from pytest_frt.seat import lifecycle, swap
from pytest_frt.seat.attachment import Attachment
from pytest_frt.seat.bind import bind_unit
from pytest_frt.seat.discover import discover
from pytest_frt.seat.guard import SeatWarning
from pytest_frt.seat.observe import observe
from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file

from .modulated import ModulatedNorm

FOLDER = Path(__file__).parents[2] / "catalog" / "modnorm_qkv_chain"
STRUCTURE = load_structure(FOLDER)
REFERENCE = load_file(FOLDER / "reference.py").reference
D, C, BEHIND, ROWS = 16, 12, 20, (2, 12)
DECLARED = Impl(name="toy", structure=STRUCTURE.name, version=1, schemes=("none",), kernel="a/b", rows={"none": ROWS})


class Attention(nn.Module):
    """Projections of an attention, with keys and values of the same tokens or of others."""

    def __init__(self, behind: int, *, bias: bool) -> None:
        super().__init__()
        self.to_q = nn.Linear(D, D, bias=bias)
        self.to_k, self.to_v = (nn.Linear(behind, D, bias=bias) for _ in range(2))

    def forward(self, x: Tensor, others: Tensor | None = None) -> Tensor:
        read = x if others is None else others
        query, key, value = self.to_q(x), self.to_k(read), self.to_v(read)
        found: Tensor = nn.functional.scaled_dot_product_attention(query, key, value)
        return found


class Block(nn.Module):
    """A block of a diffusion transformer."""

    def __init__(self, behind: int, *, bias: bool) -> None:
        super().__init__()
        self.norm1, self.attn1 = ModulatedNorm(D, C), Attention(behind, bias=bias)

    def forward(self, x: Tensor, cond: Tensor, others: Tensor | None) -> Tensor:
        return x + cast("Tensor", self.attn1(self.norm1(x, cond), others))


class Transformer(nn.Module):
    """One block that attends to itself, and one that attends to other tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.cross = Block(D, bias=True), Block(BEHIND, bias=False)

    def forward(self, x: Tensor, cond: Tensor, others: Tensor) -> Tensor:
        return cast("Tensor", self.cross(self.own(x, cond, None), cond, others))


class Part(nn.Module):
    """The reference on copies of a seat's tensors, in which every value is doubled where that is asked for."""

    def __init__(self, seat: Any, gain: float) -> None:
        super().__init__()
        own = {name: tensor.clone() for name, tensor in seat.weights.items()}
        self.__dict__["given"] = {**own, **seat.variant, **seat.constants}
        self._gain = gain

    def forward(self, x: Tensor, cond: Tensor) -> tuple[Tensor, ...]:
        n, *others = REFERENCE(x=x, cond=cond, **cast("dict[str, Any]", self.given))
        return (n, *(self._gain * other for other in others))


@dataclass
class Scene:
    """A model, its seats, and inputs."""

    model: Transformer
    seats: tuple[SeatFacts, ...]
    x: Tensor
    cond: Tensor
    others: Tensor

    def run(self) -> Tensor:
        return cast("Tensor", self.model(self.x, self.cond, self.others))

    def attach(self, gain: float = 1.0, **options: bool) -> Attachment:
        impl = cast("ModuleType", SimpleNamespace(IMPL=DECLARED, bind=lambda seat, *_: Part(seat, gain)))
        bound, refused = bind_unit(
            self.model, self.seats, structure=STRUCTURE, impl=impl, scheme="none", scales={}, kernel=impl, rows=ROWS
        )
        assert refused == ()
        return swap.attach(self.model, bound, **options)


@pytest.fixture
def scene() -> Iterator[Scene]:
    torch.manual_seed(0)
    model = Transformer().eval()
    seats, _ = discover(model, [STRUCTURE])
    with torch.no_grad():
        yield Scene(model, seats, torch.randn(1, 5, D), torch.randn(1, C), torch.randn(1, 7, BEHIND))


def own(attachment: Attachment) -> LedgerEntry:
    """Return the counts of the block that attends to itself."""
    return attachment.ledger.entries()[0]


def test_self_attention_and_cross_attention_are_told_apart(scene: Scene) -> None:
    assert {one.id: (one.variant["fanout"], one.variant["bias"]) for one in scene.seats} == {
        "own.norm1+attn1.to_q+attn1.to_k+attn1.to_v": ("qkv", "add"),
        "cross.norm1+attn1.to_q": ("q_only", "none"),
    }


@pytest.mark.parametrize("shares", [True, False])
def test_what_the_unit_shares_stays_open_to_single_projections(scene: Scene, *, shares: bool) -> None:
    chain = replace(STRUCTURE, seams=tuple(replace(rule, shares=shares) for rule in STRUCTURE.seams))
    seats, _ = discover(scene.model, [chain, load_structure(FOLDER.parent / "linear_proj")])
    single = {seat.id for seat in seats if seat.structure == "linear_proj"}
    assert ("cross.attn1.to_q" in single) is shares
    assert "cross.attn1.to_k" in single


def test_host_calls_are_observed_without_a_fault(scene: Scene) -> None:
    for seen in observe(scene.model, scene.run, scene.seats, [STRUCTURE]):
        assert (seen.calls, seen.rows, seen.fault) == (1, (5,), "")


def test_norm_that_finishes_in_place_is_no_fault(scene: Scene) -> None:
    scene.model.own.norm1.register_forward_hook(lambda _module, _given, n: n.add_(0))
    seen = observe(scene.model, scene.run, scene.seats[:1], [STRUCTURE])
    assert seen[0].fault == ""


def between(change: Callable[[Tensor], Tensor]) -> Callable[[Scene], None]:
    """Return a run in which something happens between the norm and the projections."""

    def run(scene: Scene) -> None:
        block = scene.model.own
        block.attn1(change(block.norm1(scene.x, scene.cond)))

    return run


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (between(Tensor.clone), "to_q reads something else than the output of own.norm1"),
        (between(lambda n: n.add_(1)), "the output is written to between own.norm1 and own.attn1.to_q"),
        (lambda scene: scene.model.own.attn1(scene.x), "to_q is called without own.norm1 before it"),
        (lambda scene: scene.model.own.norm1(scene.x, scene.cond), "is not called after own.norm1"),
    ],
    ids=["position_added_between", "written_between", "norm_left_out", "projections_left_out"],
)
def test_another_way_between_norm_and_projections_is_a_fault(
    scene: Scene, run: Callable[[Scene], None], said: str
) -> None:
    seen = observe(scene.model, lambda: run(scene), scene.seats[:1], [STRUCTURE])
    assert said in seen[0].fault


def test_attached_seats_answer_every_call_once_and_leave_no_trace(scene: Scene) -> None:
    wanted = scene.run()
    with scene.attach() as attachment:
        torch.testing.assert_close(scene.run(), wanted)
        assert [(one.served, one.fallbacks) for one in attachment.ledger.entries()] == [(1, 0), (1, 0)]
    assert torch.equal(scene.run(), wanted)


def test_projections_come_from_the_impl(scene: Scene) -> None:
    block = scene.model.own
    wanted = block.attn1.to_k(block.norm1(scene.x, scene.cond))
    with scene.attach(gain=2.0):
        n = block.norm1(scene.x, scene.cond)
        torch.testing.assert_close(block.attn1.to_k(n), 2 * wanted)


SPOILS: dict[str, Callable[[Tensor], Tensor]] = {
    "copied": Tensor.clone,
    "written_in_place": lambda n: n.add_(1),
    "another_view": lambda n: n[:, 1:],
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_projection_of_anything_else_runs_the_host_and_is_counted(
    scene: Scene, spoil: Callable[[Tensor], Tensor]
) -> None:
    block = scene.model.own
    host = block.attn1.to_q
    with scene.attach(gain=2.0) as attachment:
        other = spoil(block.norm1(scene.x, scene.cond))
        with pytest.warns(SeatWarning, match="other input"):
            found = block.attn1.to_q(other)
        assert torch.equal(found, host(other))
        assert own(attachment).reasons == {"other input": 1}


def test_output_is_handed_on_once(scene: Scene) -> None:
    block = scene.model.own
    with scene.attach(gain=2.0) as attachment:
        n = block.norm1(scene.x, scene.cond)
        first = block.attn1.to_q(n)
        with pytest.warns(SeatWarning, match="other input"):
            second = block.attn1.to_q(n)
        torch.testing.assert_close(first, 2 * second)
        assert own(attachment).fallbacks == 1


def test_projections_behind_a_norm_of_the_host_run_the_host_and_only_the_norm_is_counted(scene: Scene) -> None:
    wide, block = scene.x.repeat(1, 3, 1), scene.model.own
    wanted = block(wide, scene.cond, None)
    with scene.attach(gain=2.0) as attachment:
        assert torch.equal(block(wide, scene.cond, None), wanted)
        assert (own(attachment).served, own(attachment).band, own(attachment).fallbacks) == (0, 1, 0)


def test_projections_without_the_norm_are_counted(scene: Scene) -> None:
    block, wanted = scene.model.own, scene.model.own.attn1(scene.x)
    with scene.attach(gain=2.0) as attachment:
        with pytest.warns(SeatWarning, match="other input"):
            assert torch.equal(block.attn1(scene.x), wanted)
        assert own(attachment).reasons == {"other input": 3}


def test_round_of_the_host_excuses_no_later_one(scene: Scene) -> None:
    block = scene.model.own
    with scene.attach() as attachment:
        block(scene.x.repeat(1, 3, 1), scene.cond, None)
        n = block.norm1(scene.x, scene.cond)
        block.attn1(n)
        with pytest.warns(SeatWarning, match="other input"):
            block.attn1.to_q(n)
        assert own(attachment).reasons == {"other input": 1}


def test_threads_do_not_take_each_others_tickets(scene: Scene) -> None:
    block, other = scene.model.own, scene.x.flip(1).contiguous()

    def work() -> None:
        with torch.no_grad():
            block.norm1(other, scene.cond)

    with scene.attach() as attachment:
        n = block.norm1(scene.x, scene.cond)
        thread = Thread(target=work)
        thread.start()
        thread.join()
        block.attn1(n)
        assert own(attachment).fallbacks == 0


def test_contract_battery_holds(scene: Scene) -> None:
    found = lifecycle.run_battery(scene.model, scene.attach, scene.run)
    assert [(check.name, check.detail) for check in found if not check.ok] == []
