"""Cases C24 and C30 to C32: wrong device, writes in place, gradients with compiling and checkpointing, batch mates."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.rules import conduct
from pytest_frt.seat import swap
from pytest_frt.seat.bind import BoundSeat

from .conftest import Forward, Place, place, seam_run

LINEAR, FFN = place("linear_proj"), place("vision_ffn")
SOUND = LINEAR.sound()


@pytest.mark.case("C24")
def test_c24_result_on_the_current_device_and_not_the_inputs() -> None:
    assert LINEAR.said(lambda x: SOUND(x).to("meta")) == "shape"


def residual_in_place(x: Tensor) -> Tensor:
    y = FFN.sound()(x)
    x += 1.0
    return y


def normalised_in_place(x: Tensor) -> Tensor:
    y = FFN.sound()(x)
    if x.numel():
        x.copy_(F.layer_norm(x, (x.shape[-1],)))
    return y


def input_handed_back(x: Tensor) -> Tensor:
    return x.copy_(FFN.sound()(x))


@pytest.mark.case("C30")
@pytest.mark.parametrize("planted", [residual_in_place, normalised_in_place, input_handed_back])
def test_c30_the_input_is_written_to(planted: Forward) -> None:
    assert FFN.said(planted) == "input_mutated"


@pytest.mark.case("C30")
def test_c30_the_input_itself_is_returned() -> None:
    assert FFN.said(lambda x: x) == "aliased_output"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.proj = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.proj(x)))


def packed(model: Block) -> BoundSeat:
    weight, bias = model.proj.weight.detach().clone(), model.proj.bias.detach().clone()
    module = nn.Module()
    module.forward = lambda x: F.linear(x, weight, bias)
    slots = {"w": SlotRef("proj.weight", transpose=True), "b": SlotRef("proj.bias")}
    facts = SeatFacts("linear_proj", ModuleSeat("proj"), {"bias": "add"}, {"K": 8, "N": 8}, slots, {}, "float32", {})
    return BoundSeat(facts, module, 8, (8,), (1, 8), "packed", "none")


def gradients(model: nn.Module, *, compiled: bool, checkpointed: bool) -> dict[str, Tensor | None]:
    run = torch.compile(model, backend="eager") if compiled else model
    model.zero_grad(set_to_none=True)
    x = torch.linspace(-1, 1, 32).view(4, 8).requires_grad_()
    y = checkpoint(run, x, use_reentrant=False) if checkpointed else run(x)
    y.square().sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()} | {"x": x.grad}


def agree(ours: dict[str, Tensor | None], theirs: dict[str, Tensor | None]) -> bool:
    def same(a: Tensor | None, b: Tensor | None) -> bool:
        return a is None if b is None else a is not None and torch.equal(a, b)

    return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in theirs)


@pytest.mark.case("C31")
@pytest.mark.filterwarnings("ignore::pytest_frt.seat.guard.SeatWarning")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "checkpointed"])
def test_c31_gradients_through_an_attached_host(*, compiled: bool, checkpointed: bool) -> None:
    wanted = gradients(Block().eval(), compiled=compiled, checkpointed=checkpointed)
    model = Block().eval()
    with swap.attach(model, [packed(model)]):
        assert agree(gradients(model, compiled=compiled, checkpointed=checkpointed), wanted)
    torch.compiler.reset()


@pytest.mark.case("C31")
def test_c31_a_part_put_in_without_a_guard_drops_gradients() -> None:
    wanted = gradients(Block().eval(), compiled=False, checkpointed=True)
    model = Block().eval()
    model.proj.forward = packed(model).module.forward  # type: ignore[method-assign]
    assert not agree(gradients(model, compiled=False, checkpointed=True), wanted)


def mates(at: Place, forward: Forward) -> float:
    (found,) = conduct.reported(tuple(seam_run(at, forward).conduct.values()), (at.facts.id,))
    return found.value


def split_by_rows(x: Tensor) -> Tensor:
    flat = x.flatten(0, -2)
    if len(flat) < 4:
        return SOUND(x)
    half = LINEAR.facts.dims["K"] // 2
    w, b = LINEAR.weights["w"], LINEAR.weights["b"]
    return (flat[:, :half] @ w[:half] + (flat[:, half:] @ w[half:] + b)).view(*x.shape[:-1], -1)


@pytest.mark.case("C32")
def test_c32_a_row_that_depends_on_its_batch_is_reported() -> None:
    def one_by_one(x: Tensor) -> Tensor:
        return torch.cat([SOUND(row) for row in x.flatten(0, -2).split(1)])

    found = seam_run(LINEAR, lambda x: one_by_one(x).view(*x.shape[:-1], -1) if x.numel() else SOUND(x))
    assert [one.mates for one in found.conduct.values()] == [0.0]
    assert 0.0 < mates(LINEAR, split_by_rows) < 1e-5
    assert LINEAR.said(split_by_rows) == ""  # another order of sums is stated, not refused
