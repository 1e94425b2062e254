"""What is seen of a model at work: marks of operations, tensors in objects, and calls of modules and methods."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.spec.modules import load_file

from .conftest import CATALOG

watch: Any = load_file(CATALOG / "_shared" / "watch.py")
X = torch.arange(6.0).reshape(2, 3)
MARKS: dict[str, tuple[Callable[[], object], str, bool]] = {
    "item": (lambda: X.sum().item(), "blocks", True),
    "truth": (lambda: bool(X.sum()), "blocks", True),
    "equal": (lambda: torch.equal(X, X), "blocks", True),
    "numpy": (X.numpy, "blocks", True),
    "list": (X.tolist, "blocks", True),
    "numbers": (lambda: torch.tensor([1.0]), "blocks", True),
    "nonzero": (X.nonzero, "blocks", True),
    "mask": (lambda: X[X > 1], "blocks", True),
    "repeats": (lambda: X.repeat_interleave(torch.ones(2, dtype=torch.long), 0), "blocks", True),
    "to_another_device": (lambda: X.to("meta"), "blocks", True),
    "repeats_of_known_size": (
        lambda: X.repeat_interleave(torch.ones(2, dtype=torch.long), 0, output_size=2),
        "blocks",
        False,
    ),
    "index": (lambda: X[torch.zeros(2, dtype=torch.long)], "blocks", False),
    "filled": (lambda: torch.full((2,), 0.5), "blocks", False),
    "another_dtype": (lambda: X.to(torch.float64), "blocks", False),
    "noise": (lambda: torch.randn(2), "draws", True),
    "noise_in_place": (lambda: torch.empty(2).uniform_(), "draws", True),
    "dropout": (lambda: F.dropout(X, 0.5), "draws", True),
    "attention_without_dropout": (lambda: F.scaled_dot_product_attention(X[None], X[None], X[None]), "draws", False),
    "product": (lambda: X @ X.t(), "computes", True),
    "sum": (lambda: X + X, "computes", False),
    "best": (lambda: X.argmax(-1), "chooses", True),
    "largest": (X.max, "chooses", True),
}


@pytest.mark.parametrize(("work", "mark", "expected"), MARKS.values(), ids=MARKS)
def test_mark_of_an_operation(work: Callable[[], object], mark: str, expected: bool) -> None:  # noqa: FBT001
    seen = watch.watch(nn.Module(), [], work, ops=True)
    assert bool(seen.marked(mark)) is expected, seen.events


def test_tensors_in_objects_are_found_once_and_modules_are_left_out() -> None:
    loop = SimpleNamespace(keys=X, more=[{"values": X}, (X,)], part=nn.Linear(2, 2), word="x")
    loop.itself = loop
    assert [at for at, _ in watch.tensors({"cache": loop})] == ["cache.keys", "cache.more.0.values", "cache.more.1.0"]


class Two(nn.Module):
    """Calls a child twice, once by a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.child = nn.Linear(3, 3)

    def turn(self, x: Tensor, **more: Tensor) -> Tensor:
        return self.child(x + more["shift"])

    def forward(self, x: Tensor) -> Tensor:
        return self.child(self.turn(x, shift=X[:1]))


def test_calls_are_noted_in_order_with_their_form() -> None:
    model = Two()
    loop = SimpleNamespace(path="", method="turn", steps=1, moving=())
    seen = watch.watch(model, ["child"], lambda: model(X), loop)
    order = [(event.what, event.name) for event in seen.events]
    assert order == [
        ("enter", watch.STEP),
        ("enter", "child"),
        ("leave", "child"),
        ("leave", watch.STEP),
        ("enter", "child"),
        ("leave", "child"),
    ]
    assert seen.events[0].form == ("x torch.float32 (2, 3)", "shift torch.float32 (1, 3)")
    assert torch.equal(seen.answer, model(X))


def test_method_is_given_back_when_the_work_fails() -> None:
    model, kept = Two(), lambda x, **_more: x
    vars(model)["turn"] = kept
    loop = SimpleNamespace(path="", method="turn", steps=1, moving=())
    with pytest.raises(ZeroDivisionError):
        watch.watch(model, ["child"], lambda: 1 // 0, loop)
    assert vars(model)["turn"] is kept
    assert not model.child._forward_hooks
    assert not model.child._forward_pre_hooks
