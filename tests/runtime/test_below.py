"""A model that was changed after it was loaded is refused by name, before anything is committed, bound or executed."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, weight_norm

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.conftest import World

Spoil = Callable[[nn.Module], object]


def never(*_: Any) -> Any:
    raise AssertionError("attach executed the host")


class Tripled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 3


class Adapter(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    @property
    def weight(self) -> Tensor:
        return never()


def patched(method: str, at: str = "") -> Spoil:
    def spoil(block: nn.Module) -> None:
        module = block.get_submodule(at)
        setattr(module, method, types.MethodType(never, module))

    return spoil


def kind_of(block: nn.Module, body: dict[str, Any]) -> type:
    own = type(block)
    return type(own.__name__, (own,), {"__module__": own.__module__, "__qualname__": own.__qualname__} | body)


def swapped(build: Callable[[nn.Module], nn.Module]) -> Spoil:
    def spoil(block: nn.Module) -> None:
        layer = build(block.up).eval().requires_grad_(requires_grad=False)
        if isinstance(layer, nn.Linear):
            layer.weight = block.up.weight
        block.up = layer

    return spoil


def dropping(block: nn.Module) -> None:
    block.add_module("drop", nn.Dropout(0.5))


SPOILS: dict[str, tuple[Spoil, str, str]] = {
    "forward of the instance": (patched("forward"), "SEAT", "blocks.0: its forward is patched on the instance"),
    "call of the instance": (patched("_call_impl"), "SEAT", "blocks.0: its _call_impl is patched"),
    "forward of a child": (patched("forward", "up"), "SEAT", "blocks.0.up: its forward is patched on the instance"),
    "hook": (lambda b: b.register_forward_hook(never), "SEAT", "blocks.0: it has hooks (_forward_hooks)"),
    "hook of a child": (lambda b: b.up.register_forward_hook(never), "SEAT", "blocks.0.up: it has hooks"),
    "hook before": (lambda b: b.up.register_forward_pre_hook(never), "SEAT", "(_forward_pre_hooks)"),
    "hook backward": (lambda b: b.up.register_full_backward_hook(never), "SEAT", "(_backward_hooks)"),
    "hook before backward": (lambda b: b.up.register_full_backward_pre_hook(never), "SEAT", "(_backward_pre_hooks)"),
    "child of another class": (swapped(lambda _: Tripled(8, 12, bias=False)), "SEAT", "its forward is Tripled's own"),
    "child with a bias": (swapped(lambda _: nn.Linear(8, 12)), "SEAT", "blocks.0.up: its bias is in no slot"),
    "child of an unbound file": (
        lambda b: b.add_module("more", Adapter(nn.Identity())),
        "HOST",
        ".Adapter, a class of",
    ),
    "dropout": (dropping, "SEAT", "blocks.0: a dropout below it is in training mode"),
    "spoofed class": (
        lambda b: setattr(b, "__class__", kind_of(b, {"forward": never})),
        "HOST",
        "another class is called",
    ),
    "class without a module": (
        lambda b: setattr(b, "__class__", kind_of(b, {"__module__": None})),
        "HOST",
        "source of",
    ),
    "built-in class": (lambda b: setattr(b, "__class__", kind_of(b, {"__module__": "builtins"})), "HOST", "source of"),
    "weight is a property": (swapped(Adapter), "WEIGHTS_FORM", "blocks.0.up: its weight is computed"),
    "weight is normed": (lambda b: weight_norm(b.up), "WEIGHTS_FORM", "blocks.0.up: its weight is computed"),
    "weight is parametrised": (
        lambda b: parametrize.register_parametrization(b.up, "weight", nn.Identity()),
        "WEIGHTS_FORM",
        "blocks.0.up: its weight is computed",
    ),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
@pytest.mark.parametrize("spoil", SPOILS)
def test_changed_module_is_refused_by_name_and_not_executed(world: World, spoil: str, tmp_path: Path) -> None:
    change, code, said = SPOILS[spoil]
    world.certify()
    change(world.model.blocks[0])
    with torch.no_grad():
        handle = world.attach(state=tmp_path / "state.json")
    (decision,) = [one for one in handle.seats if one.seat == "blocks.0"]
    assert (handle.active, decision.code, said in decision.reason) == (False, code, True), decision.reason
    assert decision.certificate not in (tmp_path / "state.json").read_text()


@pytest.mark.parametrize("name", ["forward", "__call__", "_call_impl"])
def test_patched_class_is_refused(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world.certify()
    # Called for real while the world is taken down, so it must not raise.
    monkeypatch.setattr(type(world.model.blocks[0]), name, lambda *_: None, raising=False)
    (decision, _, _) = world.attach().seats
    assert (decision.code, f"{name} of Ffn is not" in decision.reason) == ("HOST", True), decision.reason


def harmless(block: nn.Module) -> None:
    block.note, block.up.in_features, block.act = "mine", 8, torch.relu
    block.up.train()
    block.add_module("drop", nn.Dropout(0.5).eval())


@pytest.mark.parametrize("change", [lambda _: None, harmless], ids=["as loaded", "harmless"])
def test_honest_model_is_attached(world: World, change: Spoil) -> None:
    world.certify()
    change(world.model.blocks[0])
    handle = world.attach()
    assert handle.active, handle.explain()
    handle.detach()


def test_seat_below_a_place_is_named(world: World) -> None:
    world.certify()
    world.attach()
    world.model.blocks[0] = nn.Sequential(world.model.blocks[0])
    assert {one.code for one in world.attach().seats} >= {"SEATED"}
