"""Compiling layer by layer: each layer has entries of its own, and none of them is given up."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

causal_lm: Any = import_module("pytest_frt.hosts._shared.causal_lm")
LAYERS = 10  # more than the compiler keeps for one piece of code before it gives up


class Layer(nn.Module):
    """Like a decoder layer: the same code in each, with a number of its own."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: Tensor, cache: list[Tensor]) -> Tensor:
        return x + cache[self.index]


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> nn.ModuleList:
    # The tracer decides what is compiled how often; generating code for it would only take time.
    whole = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self, **kwargs: whole(self, backend="eager", **kwargs))
    torch._dynamo.reset()
    counters.clear()
    return nn.ModuleList(Layer(i) for i in range(LAYERS))


def run(stack: nn.ModuleList) -> Tensor:
    x, cache = torch.zeros(2), [torch.full((2,), float(i)) for i in range(LAYERS)]
    for layer in stack:
        x = layer(x, cache)
    return x


def test_every_layer_is_compiled_once(stack: nn.ModuleList) -> None:
    causal_lm.compile_layers(stack)
    assert torch.equal(run(stack), run(stack))
    assert run(stack).tolist() == [45.0, 45.0]
    assert counters["stats"]["unique_graphs"] == LAYERS


def test_layers_that_share_entries_are_given_up(stack: nn.ModuleList) -> None:
    for layer in stack:
        layer.compile()
    run(stack)
    assert counters["stats"]["unique_graphs"] < LAYERS


def test_older_torch_makes_room_for_all_layers(stack: nn.ModuleList, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, *, backend: whole(model, backend=backend))
    # The module's own patch: pytest's would delete the setting when it puts the old value back.
    with torch._dynamo.config.patch(recompile_limit=8):
        causal_lm.compile_layers(stack)
        run(stack)
    assert counters["stats"]["unique_graphs"] == LAYERS
