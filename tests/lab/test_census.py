"""What impl code must leave alone is counted before and after; undoing a change makes it none."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from pytest_frt.lab.census import COMPILED, Census
from pytest_frt.measure import metrics


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.linear(x))


def copy(module: ModuleType) -> ModuleType:
    twin = ModuleType(module.__name__)
    vars(twin).update(vars(module))
    return twin


def other(*_: object, **__: object) -> None:
    """Stand in for something."""


Patch = pytest.MonkeyPatch
CHANGES: dict[str, tuple[Callable[[Patch, nn.Module], object], str]] = {
    "torch_function": (lambda patch, _: patch.setattr(F, "silu", other), "torch.nn.functional.silu"),
    "tensor_method": (lambda patch, _: patch.setattr(torch.Tensor, "clone", other), "torch.Tensor.clone"),
    "clock": (lambda patch, _: patch.setattr(time, "perf_counter", other), "time.perf_counter"),
    "our_metrics": (
        lambda patch, _: patch.setattr(metrics, "seam_metrics", other),
        "pytest_frt.measure.metrics.seam_metrics",
    ),
    "class_of_the_host": (lambda patch, _: patch.setattr(Block, "forward", other), f"{__name__}.Block.forward"),
    "method_added_to_the_host": (
        lambda patch, _: patch.setattr(Block, "__call__", other, raising=False),
        f"{__name__}.Block.__call__",
    ),
    "base_of_every_module": (
        lambda patch, _: patch.setattr(nn.Module, "__call__", other),
        "nn.modules.module.Module.__call__",
    ),
    "module_of_the_host": (lambda patch, model: patch.setitem(vars(model), "forward", other), "module itself.forward"),
    "code_of_a_torch_function": (
        lambda patch, _: patch.setattr(F.silu, "__code__", other.__code__),
        "torch.nn.functional.silu",
    ),
    "defaults_of_our_function": (
        lambda patch, _: patch.setattr(metrics.seam_metrics, "__defaults__", (1,)),
        "pytest_frt.measure.metrics.seam_metrics",
    ),
    "method_of_ours": (lambda patch, _: patch.setattr(Census, "__init__", other), "Census.__init__"),
    "event_of_the_gpu": (lambda patch, _: patch.setattr(torch.cuda.Event, "elapsed_time", other), "elapsed_time"),
    "module_replaced": (lambda patch, _: patch.setitem(sys.modules, "time", copy(time)), "sys.modules: time"),
    "collector": (lambda patch, _: patch.setattr(gc, "callbacks", [*gc.callbacks, other]), "gc.callbacks"),
    "environment": (lambda patch, _: patch.setenv("OMP_NUM_THREADS", "64"), "os.environ"),
    "import_path": (lambda patch, _: patch.syspath_prepend("/tmp"), "sys.path"),  # noqa: S108 (not written to)
}


@pytest.mark.parametrize(("change", "name"), CHANGES.values(), ids=CHANGES)
def test_change_is_named_and_ends_with_its_undoing(change: Callable[[Patch, nn.Module], object], name: str) -> None:
    model = Block()
    census = Census(model)
    with pytest.MonkeyPatch.context() as patch:
        change(patch, model)
        # Whoever imported a function of ours by name holds it as well.
        (found,) = {one for one in census.changed() if one == name or one.endswith(name)}
        assert {one.rpartition(".")[2] for one in census.changed()} == {found.rpartition(".")[2]}
        assert found.endswith(name)
    assert census.changed() == ()


def test_hooks_are_counted() -> None:
    model = Block()
    census = Census(model)
    handles = [model.linear.register_forward_hook(other), register_module_forward_hook(other)]
    assert census.changed() == ("module linear: hooks", "torch.nn.modules.module._forward_hooks")
    for handle in handles:
        handle.remove()
    assert census.changed() == ()


def test_running_and_compiling_change_nothing() -> None:
    model = Block().eval()
    model(torch.ones(1, 2))
    torch.compile(model, backend="eager")(torch.ones(1, 2))
    census = Census(model)
    torch.compile(Block().eval(), backend="eager")(torch.ones(1, 2))
    torch.compiler.reset()
    assert census.changed() == ()


@pytest.mark.parametrize("name", COMPILED)
def test_what_a_reset_compiler_takes_away_is_no_change_but_a_replaced_one_is(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(metrics), f"{name}0", other)
        census = Census(Block())
        patch.setitem(vars(metrics), f"{name}0", print)
        assert census.changed() == (f"{metrics.__name__}.{name}0",)
    assert f"{name}0" not in vars(metrics)
    assert census.changed() == ()


def test_function_taken_away_is_a_change() -> None:
    census = Census(Block())
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(metrics, "seam_metrics")
        assert census.changed() == (f"{metrics.__name__}.seam_metrics",)


def test_threads_of_torch_are_a_setting() -> None:
    census, before = Census(Block()), torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert census.changed() == ("torch.get_num_threads",)
    finally:
        torch.set_num_threads(before)
