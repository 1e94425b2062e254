"""Rows of the contract that every kind of seat keeps: failures half-way, band edges, gradients, checkpoints, shapes."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.errors import SwapRefused
from pytest_frt.seat import attachment as attached
from pytest_frt.seat.guard import SELF_DETACH_AFTER, SeatWarning
from tests.seat.conftest import rows

if TYPE_CHECKING:
    from tests.seat.conftest import Toy

KINDS = ("ffn", "pack", "split")
STEPS = ((attached.Seated, "lock"), (attached.Seated, "put_seats"), (attached.Place, "put"))


@pytest.fixture
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("turn", [1, 2, 3])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[f"{owner.__name__}.{step}" for owner, step in STEPS])
def test_attach_that_fails_at_any_step_leaves_the_twin(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, turn: int
) -> None:
    honest: Callable[..., Any] = getattr(owner, step)
    calls = []

    def fails(*args: object) -> object:
        calls.append(step)
        if len(calls) == turn:
            raise KeyboardInterrupt
        return honest(*args)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fails)
        with pytest.raises(KeyboardInterrupt):
            toy.attach(*KINDS)
    assert len(calls) >= turn
    assert toy.is_twin()
    toy.attach(*KINDS).detach()
    assert toy.is_twin()


@pytest.mark.usefixtures("_no_grad")
@pytest.mark.parametrize("kind", ["pack", "split"])
def test_host_that_raises_between_the_members_of_a_pair_leaves_nothing_behind(toy: Toy, kind: str) -> None:
    attachment = toy.attach(kind)
    block = toy.model.blocks[0]
    holder = block.attention if kind == "pack" else block
    wanted = toy.model(rows(4))
    honest = holder.between

    def raises(_: Tensor) -> Tensor:
        raise ZeroDivisionError

    holder.between = raises
    with pytest.raises(ZeroDivisionError):
        toy.model(rows(4))
    holder.between = honest
    assert torch.equal(toy.model(rows(4)), wanted)
    assert attachment.ledger.entries()[0].fallbacks == 0
    attachment.detach()
    assert toy.is_twin()


@pytest.mark.usefixtures("_no_grad")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "served"), [(0, 0), (2, 0), (3, 1), (6, 1), (7, 0)])
def test_every_edge_of_a_band_is_served_or_is_the_host(toy: Toy, kind: str, count: int, served: int) -> None:
    from pytest_frt.seat.swap import attach

    attachment = attach(toy.model, toy.bind((kind, 0), rows=(3, 6)))
    x = rows(count)
    got, host = toy.model(x), toy.twin(x)
    assert torch.equal(got, host) is not bool(served)
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.band, entry.fallbacks) == (served, 1 - served, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_the_hosts(toy: Toy, kind: str) -> None:
    attachment = toy.attach(kind)
    mine, its = rows(4).requires_grad_(), rows(4).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeatWarning)
        toy.model(mine).square().sum().backward()
    toy.twin(its).square().sum().backward()
    assert torch.equal(mine.grad, its.grad)
    pairs = zip(toy.model.parameters(), toy.twin.parameters(), strict=True)
    assert all(torch.equal(ours.grad, theirs.grad) for ours, theirs in pairs)
    assert set(attachment.ledger.entries()[0].reasons) <= {"gradient", "other input"}


@pytest.mark.usefixtures("_no_grad")
@pytest.mark.parametrize("kind", KINDS)
def test_checkpoint_of_a_seated_model_loads_strictly_into_a_fresh_one_and_none_into_it(toy: Toy, kind: str) -> None:
    toy.attach(kind)
    fresh = copy.deepcopy(toy.twin)
    for parameter in fresh.parameters():
        parameter.zero_()
    fresh.load_state_dict(toy.model.state_dict(), strict=True)
    assert torch.equal(fresh(rows(4)), toy.twin(rows(4)))
    before = {name: tensor.clone() for name, tensor in toy.model.state_dict().items()}
    zeros = {name: torch.zeros_like(tensor) for name, tensor in before.items()}
    for strict in (True, False):
        with pytest.raises(SwapRefused):
            toy.model.load_state_dict(zeros, strict=strict)
    assert all(torch.equal(tensor, before[name]) for name, tensor in toy.model.state_dict().items())


@pytest.mark.usefixtures("_no_grad")
@pytest.mark.parametrize("kind", KINDS)
def test_seat_that_never_fits_is_given_back_and_the_twin_is_left(toy: Toy, kind: str) -> None:
    attachment = toy.attach(kind)
    low = copy.deepcopy(toy.twin)
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16):
        warnings.simplefilter("ignore", SeatWarning)
        for _ in range(SELF_DETACH_AFTER):
            assert torch.equal(toy.model(rows(4)), low(rows(4)))
    assert attachment.ledger.entries()[0].restored
    assert toy.is_twin()


@pytest.mark.usefixtures("_no_grad")
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_with_dynamic_shapes_answers_like_eager_on_both_sides_of_the_band(toy: Toy, kind: str) -> None:
    attachment = toy.attach(kind)
    compiled = torch.compile(toy.model, backend="eager", fullgraph=True, dynamic=True)
    wanted = {count: toy.model(rows(count)) for count in (2, 5, 8, 9, 11)}
    attachment.ledger.reset()
    for count, one in wanted.items():
        torch.testing.assert_close(compiled(rows(count)), one)
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.band, entry.fallbacks) == (3, 2, 0)


@pytest.mark.usefixtures("_no_grad")
def test_weight_written_while_attached_is_named_and_the_answer_stays_what_was_proven(toy: Toy) -> None:
    attachment = toy.attach("ffn")
    before = toy.model(rows(4))
    toy.model.blocks[0].mlp.up.weight.mul_(3)
    assert torch.equal(toy.model(rows(4)), before)
    assert attachment.unsound() == {"blocks.0.mlp": ("weight",)}
    attachment.detach()
    assert not torch.equal(toy.model(rows(4)), toy.twin(rows(4)))


def test_backward_hooks_of_the_host_fire(toy: Toy) -> None:
    fired: list[str] = []

    def note(module: nn.Module, *_: object) -> None:
        fired.append(type(module).__name__)

    toy.model.blocks[0].mlp.register_full_backward_hook(note)
    toy.attach("ffn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeatWarning)
        toy.model(rows(4).requires_grad_()).sum().backward()
    assert len(fired) == 1
