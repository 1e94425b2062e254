"""Slot tensors are views in the structure's layout, and their digest follows memory, not names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.errors import SpecError
from pytest_frt.seat.weights import slot_tensors, weights_digest
from pytest_frt.spec.weights_digest import SlotBytes, slots_digest


def facts(**slots: SlotRef) -> SeatFacts:
    return SeatFacts("toy", ModuleSeat("0"), {}, {}, slots, {}, "float32", {})


BOTH = facts(w=SlotRef("0.weight", transpose=True), b=SlotRef("0.bias"))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))


def test_slots_are_views_in_the_layout_of_the_structure(model: nn.Module) -> None:
    slots = slot_tensors(model, BOTH)
    assert slots["w"].shape == (6, 4)
    assert torch.equal(slots["w"].T, model[0].weight)
    assert slots["w"].data_ptr() == model[0].weight.data_ptr()
    assert not slots["b"].requires_grad


def test_buffers_can_be_slots(model: nn.Module) -> None:
    assert slot_tensors(model, facts(m=SlotRef("1.running_mean")))["m"].shape == (4,)


@pytest.mark.parametrize("name", ["0.nothing", "7.weight", "0.in_features"])
def test_missing_tensor_is_named(model: nn.Module, name: str) -> None:
    with pytest.raises(SpecError, match=name):
        slot_tensors(model, facts(w=SlotRef(name)))


def test_digest_is_that_of_the_stored_bytes(model: nn.Module) -> None:
    raw = {name: memoryview(getattr(model[0], name).detach().numpy().tobytes()) for name in ("weight", "bias")}
    slots = [SlotBytes("w", "float32", (4, 6), raw["weight"]), SlotBytes("b", "float32", (4,), raw["bias"])]
    assert weights_digest(model, BOTH) == slots_digest(slots)


def one_bit(model: nn.Module) -> None:
    model[0].weight.data.view(torch.int32)[3, 5] ^= 1


def negative_zero(model: nn.Module) -> None:
    model[0].bias.data[0] = -0.0


SPOILS: dict[str, Callable[[nn.Module], object]] = {
    "one_bit": one_bit,
    "negative_zero": negative_zero,
    "bfloat16": lambda model: model.bfloat16(),
    "rows_swapped": lambda model: model[0].weight.data.copy_(model[0].weight.data.flip(0)),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_any_change_in_memory_changes_the_digest(model: nn.Module, spoil: Callable[[nn.Module], object]) -> None:
    model[0].bias.data[0] = 0.0
    before = weights_digest(model, BOTH)
    spoil(model)
    assert weights_digest(model, BOTH) != before


def test_layout_in_memory_does_not_matter(model: nn.Module) -> None:
    before = weights_digest(model, BOTH)
    model[0].weight.data = model[0].weight.data.T.contiguous().T
    assert not model[0].weight.is_contiguous()
    assert weights_digest(model, BOTH) == before
