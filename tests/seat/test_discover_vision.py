"""Seats of ``vision_ffn``: look-alikes are refused with their reason, the plain ones beside them are seats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

from pytest_frt.contracts.seat import NotReplaced, SeatFacts
from pytest_frt.seat.discover import discover
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
NAME = "vision_ffn"
D, HIDDEN = 8, 16


def found(module: nn.Module) -> tuple[list[SeatFacts], list[NotReplaced]]:
    seats, rest = discover(nn.ModuleDict({"mlp": module}).eval(), STRUCTURES)
    return [one for one in seats if one.structure == NAME], [row for row in rest if row.kind == NAME]


class Block(nn.Module):
    def __init__(self, act: object = None, *, biases: tuple[bool, bool] = (True, True)) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(D, HIDDEN, bias=biases[0]), nn.Linear(HIDDEN, D, bias=biases[1])
        self.act = act or nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Residual(Block):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class Gained(Block):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1.001


class Inline(Block):
    def __init__(self) -> None:
        super().__init__()
        del self.act

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class RootMeanSquare(nn.LayerNorm):
    """Has the vectors and the epsilon of a layer norm."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight + self.bias


class First(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense, self.intermediate_act_fn = nn.Linear(D, HIDDEN), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.intermediate_act_fn(self.dense(x))


class Second(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(HIDDEN, D), norm

    def forward(self, hidden: Tensor, x: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(hidden) + x)


class Split(nn.Module):
    """A block over two modules that ends in a norm."""

    def __init__(self, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.intermediate, self.output = First(), Second(norm or nn.LayerNorm(D))


def patched() -> Block:
    block = Block()
    block.fc1.forward = block.fc1.forward  # type: ignore[method-assign]
    return block


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "silu": (lambda: Block(nn.SiLU()), "activation act is silu, vision_ffn has gelu_tanh, gelu_erf"),
    "quick_gelu": (lambda: Block(ACT2FN["quick_gelu"]), "act is quick_gelu, vision_ffn has"),
    "relu": (lambda: Block(nn.ReLU()), "act is relu, vision_ffn has"),
    "clipped_gelu": (lambda: Block(ACT2FN["gelu_10"]), "activation act is not told: it is none of"),
    "activation_inside_forward": (Inline, "there is no activation_fn to tell the activation from"),
    "first_without_bias": (lambda: Block(biases=(False, True)), "fc1.bias is missing"),
    "second_without_bias": (lambda: Block(biases=(True, False)), "fc2.bias is missing"),
    "hidden_residual": (Residual, "does not compute vision_ffn"),
    "gain_of_a_thousandth": (Gained, "does not compute vision_ffn"),
    "patched_forward": (patched, "forward of mlp.fc1 is patched on the instance"),
    "norm_of_squares": (lambda: Split(RootMeanSquare(D)), "does not compute vision_ffn"),
    "norm_without_shift": (lambda: Split(nn.LayerNorm(D, bias=False)), "output.LayerNorm.bias is missing"),
    "no_norm": (lambda: Split(nn.Identity()), "output.LayerNorm.weight is missing"),
    "silu_in_a_split_block": (lambda: silu(Split()), "intermediate_act_fn is silu"),
}


def silu(split: Split) -> Split:
    split.intermediate.intermediate_act_fn = nn.SiLU()
    return split


@pytest.mark.parametrize(("build", "word"), REFUSED.values(), ids=REFUSED)
def test_look_alike_is_refused_with_its_reason(build: Callable[[], nn.Module], word: str) -> None:
    seats, rest = found(build())
    assert seats == []
    assert any(word in row.reason for row in rest), rest


PLAIN: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "erf": (Block, "gelu_erf", "none"),
    "tanh": (lambda: Block(nn.GELU("tanh")), "gelu_tanh", "none"),
    "split": (Split, "gelu_erf", "post"),
}


@pytest.mark.parametrize(("build", "activation", "norm"), PLAIN.values(), ids=PLAIN)
def test_the_plain_one_is_a_seat(build: Callable[[], nn.Module], activation: str, norm: str) -> None:
    (seat,), rest = found(build())
    assert (seat.variant["activation"], seat.variant["norm"], rest) == (activation, norm, [])
