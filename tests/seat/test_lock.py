"""Attaching locks the modules above a seat, and detaching returns what they had of their own."""

from __future__ import annotations

import copy
import gc
import types
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from pytest_frt.errors import SwapRefused
from pytest_frt.seat.guard import Form, Guard
from pytest_frt.seat.ledger import Counts
from pytest_frt.seat.lock import lock, unlock
from pytest_frt.seat.module import SeatModule

METHODS = ("_apply", "_load_from_state_dict")


def seat_of(host: nn.Module) -> SeatModule:
    form, device = Form(torch.float32, 4, torch.device("cpu"), (1, 8)), torch.device("cpu")
    return SeatModule(host, Guard(form, Counts("seat", device), strict=False, hosts=(host,), held=()))


class Model(nn.Module):
    """Has both methods of its own, as a library sets them on an instance."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        for name in METHODS:
            self.__dict__[name] = types.MethodType(heard(name), self)


def heard(name: str) -> Any:
    def method(self: Model, *_: Any, **__: Any) -> Model:
        self.heard.append(name)
        return self

    return method


@pytest.mark.parametrize("rounds", [1, 2])
def test_own_methods_return(rounds: int) -> None:
    model = Model()
    before = dict(vars(model))
    seats = [seat_of(nn.Linear(4, 4)) for _ in range(2)]
    for _ in range(rounds):
        for seat in seats:
            lock(model, [seat])
        for seat in seats:
            unlock(model, [seat])
    assert vars(model) == before


def test_lock_asks_own_method_after_the_seats() -> None:
    model, seat = Model(), seat_of(nn.Linear(4, 4))
    lock(model, [seat])
    model.float()
    assert model.heard == ["_apply"]
    with pytest.raises(SwapRefused, match="weights cannot be loaded"):
        model.load_state_dict({})
    assert model.heard == ["_apply"]
    unlock(model, [seat])
    model.load_state_dict({})
    assert model.heard == list(METHODS)


def test_copy_of_a_locked_module_keeps_its_own_methods() -> None:
    model, seat = Model(), seat_of(nn.Linear(4, 4))
    lock(model, [seat])
    twin = copy.deepcopy(model)
    twin.load_state_dict({})
    twin.float()
    assert (model.heard, twin.heard) == ([], ["_load_from_state_dict", "_apply"])
    unlock(model, [seat])


def test_method_set_over_the_lock_stays() -> None:
    model, seat = Model(), seat_of(nn.Linear(4, 4))
    lock(model, [seat])
    model.__dict__["_apply"] = late = types.MethodType(heard("late"), model)
    unlock(model, [seat])
    assert model.__dict__["_apply"] is late
    assert model.load_state_dict({}) is not None
    assert model.heard == ["_load_from_state_dict"]


def test_locked_module_can_be_freed() -> None:
    model, seat = Model(), seat_of(nn.Linear(4, 4))
    lock(model, [seat])
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert seat.frt_seat == "seat"
