"""Case C29: an embedding and a head that share one tensor, and what a part can do to the other use of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.seat import checks, lifecycle, release, swap
from pytest_frt.seat.attachment import Attachment
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.weights import weights_digest

TOKENS = torch.tensor([1, 4, 4, 7])
FACTS = SeatFacts(
    "linear_proj",
    ModuleSeat("head"),
    {"bias": "none"},
    {"K": 8, "N": 16},
    {"w": SlotRef("head.weight", transpose=True)},
    {},
    "float32",
    {},
)
Fault = Callable[["Tied"], nn.Module]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embed(tokens)))


class Packed(nn.Module):
    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.kept = weight.detach().clone()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.kept)


def codes(weight: Tensor) -> Tensor:
    return weight.detach().mul(8).round().div(8)


def sound(model: Tied) -> nn.Module:
    return Packed(codes(model.head.weight))


def quantised_together(model: Tied) -> nn.Module:
    with torch.no_grad():
        model.head.weight.copy_(codes(model.head.weight))
    return Packed(model.head.weight)


def untied(model: Tied) -> nn.Module:
    model.head.weight = nn.Parameter(codes(model.head.weight))
    return Packed(model.head.weight)


class WritesWhenCalled(Packed):
    def __init__(self, model: Tied) -> None:
        super().__init__(codes(model.head.weight))
        self.shared = model.embed.weight.data

    def forward(self, x: Tensor) -> Tensor:
        self.shared.copy_(self.kept)  # through .data: no version counts it
        return super().forward(x)


def attached(model: Tied, plant: Fault) -> Attachment:
    return swap.attach(model, [BoundSeat(FACTS, plant(model), 8, (16,), (1, 8), "packed", "none")])


def failed(plant: Fault) -> set[str]:
    model = Tied().eval()
    with patch.object(lifecycle, "CHECKS", (checks.detach_is_exact, checks.state_is_unchanged)):
        battery = lifecycle.run_battery(model, lambda: attached(model, plant), lambda: model(TOKENS))
    return {check.name for check in battery if not check.ok}


@pytest.mark.case("C29")
@pytest.mark.parametrize(
    ("plant", "names"),
    [
        pytest.param(quantised_together, {"state_is_unchanged", "detach_is_exact"}, id="quantised_together"),
        pytest.param(untied, {"state_is_unchanged", "detach_is_exact"}, id="untied"),
        pytest.param(sound, set(), id="sound"),
    ],
)
def test_c29_what_is_done_to_a_tied_tensor_at_bind_breaks_the_contract(plant: Fault, names: set[str]) -> None:
    assert failed(plant) == names


@pytest.mark.case("C29")
@pytest.mark.parametrize(("plant", "kept"), [(WritesWhenCalled, False), (sound, True)], ids=["written", "sound"])
@torch.no_grad()
def test_c29_a_tied_tensor_written_to_in_a_call_is_another(plant: Fault, *, kept: bool) -> None:
    model = Tied().eval()
    before, embedded = weights_digest(model, FACTS), model.embed(TOKENS)
    with attached(model, plant):
        model(TOKENS)
    assert (weights_digest(model, FACTS) == before) is kept
    assert torch.equal(model.embed(TOKENS), embedded) is kept


@torch.no_grad()
def embeds_as_before(model: Tied) -> bool:
    return model.embed.weight.numel() > 0 and torch.equal(model.embed(TOKENS), Tied().embed(TOKENS))


@pytest.mark.case("C29")
def test_c29_a_freed_tied_tensor_is_missed_by_its_other_use(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tied().eval()
    attached(model, sound).finalize()
    assert embeds_as_before(model)
    numbers = count()
    monkeypatch.setattr(release, "_storage", lambda _tensor: next(numbers))  # who else uses it is not looked at
    model = Tied().eval()
    attached(model, sound).finalize()
    assert not embeds_as_before(model)
