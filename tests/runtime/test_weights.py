"""Weights at attach: what was merged, wrapped, packed, cast or moved is refused by its code; only seats are hashed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.runtime import facts
from pytest_frt.seat.weights import WeightHasher

if TYPE_CHECKING:
    from tests.runtime.conftest import World

SEAT = "blocks.1"


class LoraLinear(nn.Module):
    """A linear with an adapter beside it, as adapter libraries leave it when they do not merge."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer, self.lora_a = base, nn.Linear(base.in_features, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.base_layer(x)
        return answer


class Packed(Tensor):
    """A tensor that decides itself what its elements are."""


def down(world: World) -> nn.Linear:
    linear: nn.Linear = world.model.blocks[1].down
    return linear


def put(world: World, tensor: Tensor) -> None:
    down(world).weight = nn.Parameter(tensor, requires_grad=False)


def merged(world: World) -> None:
    down(world).weight.data[3, 5] += 2**-20


def wrapped(world: World) -> None:
    world.model.blocks[1].down = LoraLinear(down(world))


def subclassed(world: World) -> None:
    world.model.blocks[1].__class__ = type("Quantised", (type(world.model.blocks[1]),), {})


def quantised(world: World) -> None:
    put(world, torch.quantize_per_tensor(down(world).weight.data, 0.1, 0, torch.qint8))


CHANGES: dict[str, tuple[Callable[[World], object], str, str]] = {
    "LoRA merged": (merged, "WEIGHTS", "w_down is blocks.1.down.weight, float32 8x12"),
    "LoRA wrapped": (wrapped, "SEAT", "no tensor blocks.1.down.weight"),
    "class exchanged": (subclassed, "HOST", "Quantised is certified as nothing"),
    "rounded to int8": (
        lambda world: put(world, down(world).weight.data.to(torch.int8)),
        "WEIGHTS",
        "w_down is blocks.1.down.weight, int8 8x12",
    ),
    "quantised in place": (quantised, "WEIGHTS_FORM", "slot w_down (blocks.1.down.weight) of seat blocks.1 has dtype"),
    "packed subclass": (
        lambda world: put(world, down(world).weight.data.as_subclass(Packed)),
        "WEIGHTS_FORM",
        "slot w_down (blocks.1.down.weight) of seat blocks.1 is a ",
    ),
    "sparse": (
        lambda world: put(world, down(world).weight.data.to_sparse()),
        "WEIGHTS_FORM",
        "slot w_down (blocks.1.down.weight) of seat blocks.1 has layout sparse_coo",
    ),
    "cast": (lambda world: world.model.bfloat16(), "WEIGHTS", "w_down is blocks.0.down.weight, bfloat16 8x12"),
    "not loaded": (lambda world: world.model.to("meta"), "DEVICE", "its tensors are on meta, certified is cpu"),
    "slots exchanged": (
        lambda world: (
            setattr(world.model.blocks[1].up, "weight", nn.Parameter(down(world).weight.data.T.contiguous())),
            put(world, world.model.blocks[1].up.weight.data.T.contiguous()),
        ),
        "WEIGHTS",
        "w_up is blocks.1.up.weight",
    ),
}


@pytest.mark.parametrize(("spoil", "code", "said"), CHANGES.values(), ids=CHANGES)
def test_changed_weights_are_refused_with_seat_and_slot(
    world: World, spoil: Callable[[World], object], code: str, said: str
) -> None:
    world.certify()
    spoil(world)
    handle = world.attach()
    (decision,) = [one for one in handle.seats if said in one.reason]
    assert decision.code == code
    assert decision.seat in said or decision.seat == (SEAT if "blocks.1" in said or code == "HOST" else "blocks.0")
    assert not handle.active


@pytest.mark.parametrize(("blocks", "tensors"), [([1], 2), ([0, 1], 3)], ids=["one seat", "both, tied"])
def test_only_certified_seats_are_hashed_and_a_tie_only_once(
    world: World, monkeypatch: pytest.MonkeyPatch, blocks: list[int], tensors: int
) -> None:
    made: list[WeightHasher] = []
    monkeypatch.setattr(facts, "WeightHasher", lambda: made.append(WeightHasher()) or made[-1])
    world.model.embedding = nn.Embedding(1000, 8)
    tie(world)
    world.certify(world.record(blocks=blocks))
    assert world.attach().active
    assert [one.hashed for one in made] == [4 * 8 * 12 * tensors]


def tie(world: World) -> None:
    world.model.blocks[0].up.weight = world.model.blocks[1].up.weight


def untie(world: World) -> None:
    world.model.blocks[0].up.weight = nn.Parameter(world.model.blocks[1].up.weight.data.clone())


@pytest.mark.parametrize(("before", "after"), [(tie, untie), (untie, tie)], ids=["tie lost", "tie gained"])
def test_a_tie_does_not_decide_where_the_bytes_are_those(
    world: World, before: Callable[[World], object], after: Callable[[World], object]
) -> None:
    before(world)
    world.certify()
    after(world)
    assert world.attach().active


def test_strided_weights_of_the_same_values_are_accepted(world: World) -> None:
    world.certify()
    down(world).weight.data = down(world).weight.data.T.contiguous().T
    assert world.attach().active
