"""Seats of modulated norms, alone and before an attention: look-alikes are refused with their reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.seat import NotReplaced, SeatFacts
from pytest_frt.seat.discover import discover
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
PRODUCER, CHAIN = (load_structure(CATALOG / name) for name in ("adaln_producer", "modnorm_qkv_chain"))
D, C = 8, 6
Change = Callable[[Any], object]


class Rms(nn.Module):
    """RMS norm with projected scale, shift and gate."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.eps = nn.Linear(C, 3 * D), 1e-5

    def forward(self, x: Tensor, cond: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift, gate = self.dense(cond)[:, None].chunk(3, -1)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + scale) + shift, gate


class GateDropped(Rms):
    def forward(self, x: Tensor, cond: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, cond)[0]


class Layer(nn.Module):
    """Layer norm with projected scale and shift."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(D, elementwise_affine=False), nn.Linear(C, 2 * D)

    def condition(self, cond: Tensor) -> Tensor:
        return F.silu(cond)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        scale, shift = self.linear(self.condition(cond))[:, None].chunk(2, -1)
        return self.norm(x) * (1 + scale) + shift


class Unconditioned(Layer):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, torch.ones(1, C).to(x))


class WithoutSilu(Layer):
    def condition(self, cond: Tensor) -> Tensor:
        return cond


class ScaleAsItIs(Layer):
    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        scale, shift = self.linear(self.condition(cond))[:, None].chunk(2, -1)
        return self.norm(x) * scale + shift


class Block(nn.Module):
    def __init__(self, norm: type[Layer] = Layer) -> None:
        super().__init__()
        self.norm1, self.attn1 = norm(), nn.Module()
        for name in ("to_q", "to_k", "to_v"):
            setattr(self.attn1, name, nn.Linear(D, D))


def put(path: str, module: Callable[[], object]) -> Change:
    """Return what puts something at a dotted path."""

    def change(model: nn.Module) -> None:
        owner, _, name = path.rpartition(".")
        setattr(model.get_submodule(owner), name, module())

    return change


def keep(_model: nn.Module) -> None: ...


AFFINE, GAIN = partial(nn.LayerNorm, D), partial(nn.Parameter, torch.ones(D))
PLAIN, STYLED = partial(nn.Linear, D, D, bias=False), partial(nn.Linear, C, 2 * D, bias=False)
PRODUCERS: dict[str, tuple[Callable[[], nn.Module], Change, str]] = {
    "norm_with_vectors": (Layer, put("norm", AFFINE), "norm.weight is no slot of adaln_producer"),
    "norm_without_epsilon": (Layer, put("norm", nn.Identity), "norm.eps is NoneType, no number"),
    "epsilon_as_text": (Rms, put("eps", lambda: "1e-5"), "eps is str, no number"),
    "learned_gain": (Rms, put("gain", GAIN), "gain is no slot of adaln_producer"),
    "projection_without_bias": (Layer, put("linear", STYLED), "linear.bias is missing"),
    "no_gate_returned": (GateDropped, keep, "the seam returns 1 tensors, the reference 2"),
    "no_condition_taken": (Unconditioned, keep, "takes 1 to 1 positional arguments, the seam gives 2"),
    "condition_as_it_is": (WithoutSilu, keep, "does not compute adaln_producer"),
    "scale_as_it_is": (ScaleAsItIs, keep, "does not compute adaln_producer"),
}
CHAINS: dict[str, tuple[Callable[[], nn.Module], Change, str]] = {
    "norm_with_vectors": (Block, put("norm1.norm", AFFINE), "norm1.norm.weight is no slot of modnorm_qkv_chain"),
    "norm_without_epsilon": (Block, put("norm1.norm", nn.Identity), "norm1.norm.eps is NoneType, no number"),
    "gain_in_the_norm": (Block, put("norm1.gain", GAIN), "norm1.gain is no slot of modnorm_qkv_chain"),
    "condition_as_it_is": (lambda: Block(WithoutSilu), keep, "does not compute modnorm_qkv_chain"),
    "scale_as_it_is": (lambda: Block(ScaleAsItIs), keep, "does not compute modnorm_qkv_chain"),
}
CASES = {
    **{f"producer_{name}": (PRODUCER, *case) for name, case in PRODUCERS.items()},
    **{f"chain_{name}": (CHAIN, *case) for name, case in CHAINS.items()},
}


def found(structure: Any, model: nn.Module) -> tuple[tuple[SeatFacts, ...], list[NotReplaced]]:
    seats, rest = discover(nn.ModuleDict({"at": model}).eval(), [structure])
    return seats, [row for row in rest if row.kind == structure.name]


@pytest.mark.parametrize(("structure", "build", "change", "word"), CASES.values(), ids=CASES)
def test_look_alike_is_refused_with_its_reason(
    structure: Any, build: Callable[[], nn.Module], change: Change, word: str
) -> None:
    model = build()
    change(model)
    seats, rest = found(structure, model)
    assert seats == ()
    assert [word in row.reason for row in rest] == [True], rest


@pytest.mark.parametrize(
    ("structure", "build"), [(PRODUCER, Rms), (PRODUCER, Layer), (CHAIN, Block)], ids=["gated", "layer", "chain"]
)
def test_the_plain_one_is_a_seat(structure: Any, build: Callable[[], nn.Module]) -> None:
    seats, rest = found(structure, build())
    assert (len(seats), rest) == (1, [])


def test_norm_that_names_no_epsilon_is_not_looked_at() -> None:
    model = Rms()
    del model.eps
    assert found(PRODUCER, model) == ((), [])


OTHERS: dict[str, Change] = {
    "keys_read_another_width": put("attn1.to_k", partial(nn.Linear, D + 1, D)),
    "values_without_bias": put("attn1.to_v", PLAIN),
    "no_values": put("attn1.to_v", nn.Identity),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_queries_alone_are_a_seat_where_keys_and_values_do_not_go_with_them(change: Change) -> None:
    model = Block()
    change(model)
    (seat,), _ = found(CHAIN, model)
    assert (seat.variant["fanout"], seat.id) == ("q_only", "at.norm1+attn1.to_q")
