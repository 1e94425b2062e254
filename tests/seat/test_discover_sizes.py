"""Sizes that do not agree are refused with both numbers, in every structure; those that do are a seat."""

from __future__ import annotations

from collections.abc import Callable
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
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
D, HIDDEN, C = 8, 16, 6


def found(model: nn.Module, structure: str) -> tuple[list[SeatFacts], dict[str, NotReplaced]]:
    """Return the seats of a structure, and by path why there is none."""
    seats, rest = discover(model.eval(), STRUCTURES)
    said = {row.path: row for row in rest if structure in (row.kind, row.reason.partition(":")[0])}
    return [seat for seat in seats if seat.structure == structure], said


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj_out = nn.Linear(D, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj_out(x)


class Attention(nn.Module):
    """Three siblings of unequal widths."""

    def __init__(self, key_reads: int = D) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(D, 8), nn.Linear(key_reads, 4), nn.Linear(D, 6)


class Gated(nn.Module):
    def __init__(self, down: tuple[int, int] = (HIDDEN, D)) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(D, HIDDEN, bias=False) for _ in "gu")
        self.down_proj, self.act_fn = nn.Linear(*down, bias=False), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Vision(nn.Module):
    def __init__(self, second: tuple[int, int] = (HIDDEN, D)) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(D, HIDDEN), nn.GELU(), nn.Linear(*second)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, HIDDEN, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x.view(-1, 3, 2, 2)).flatten(1)


class Rms(nn.Module):
    """A modulated RMS norm with a gate, which may make more pieces than it takes."""

    def __init__(self, width: int = 3 * D, pieces: int = 3) -> None:
        super().__init__()
        self.dense, self.eps, self.pieces = nn.Linear(C, width), 1e-5, pieces

    def forward(self, x: Tensor, cond: Tensor) -> tuple[Tensor, Tensor]:
        scale, shift, gate = self.dense(cond)[:, None].chunk(self.pieces, -1)[:3]
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (1 + scale) + shift, gate


class Layer(nn.Module):
    """A modulated layer norm."""

    def __init__(self, width: int = 2 * D) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(D, elementwise_affine=False), nn.Linear(C, width)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        scale, shift = self.linear(F.silu(cond))[:, None, : 2 * D].chunk(2, -1)
        return self.norm(x) * (1 + scale) + shift


class Chain(nn.Module):
    """A modulated norm before an attention."""

    def __init__(self, width: int = 2 * D, query_reads: int = D) -> None:
        super().__init__()
        self.norm1, self.attn1 = Layer(width), nn.Module()
        self.attn1.to_q = nn.Linear(query_reads, D)
        self.attn1.to_k, self.attn1.to_v = nn.Linear(D, D), nn.Linear(D, D)


def tensor(path: str, change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], None]:
    """Return what puts another tensor in the place of one."""

    def spoil(model: nn.Module) -> None:
        owner, _, name = path.rpartition(".")
        module = model.get_submodule(owner)
        setattr(module, name, nn.Parameter(change(getattr(module, name).detach()).clone()))

    return spoil


CUT, LONGER = (lambda t: t[..., 1:]), (lambda t: torch.cat([t, t[:1]]))
TENSORS: dict[str, tuple[str, type[nn.Module], Callable[[nn.Module], None], list[str]]] = {
    "linear_bias_short": ("linear_proj", Linear, tensor("proj_out.bias", CUT), ["b has size 15", "'N' is 16"]),
    "linear_bias_long": ("linear_proj", Linear, tensor("proj_out.bias", LONGER), ["b has size 17", "'N' is 16"]),
    "linear_bias_of_two_axes": ("linear_proj", Linear, tensor("proj_out.bias", lambda b: b[None]), ["b has 2 axes"]),
    "linear_weight_of_one_axis": ("linear_proj", Linear, tensor("proj_out.weight", lambda w: w[0]), ["w has 1 axes"]),
    "linear_weight_of_three": ("linear_proj", Linear, tensor("proj_out.weight", lambda w: w.view(16, 2, 4)), ["fails"]),
    "query_bias_short": ("qkv_pack", Attention, tensor("q_proj.bias", CUT), ["b_q has size 7", "'Nq' is 8"]),
    "value_weight_of_one_axis": ("qkv_pack", Attention, tensor("v_proj.weight", lambda w: w[0]), ["w_v has 1 axes"]),
    "first_bias_short": ("vision_ffn", Vision, tensor("fc1.bias", CUT), ["b_fc1 has size 15", "'F' is 16"]),
    "second_bias_long": ("vision_ffn", Vision, tensor("fc2.bias", LONGER), ["b_fc2 has size 9", "'D' is 8"]),
    "patch_bias_short": ("patch_projection", Patches, tensor("proj.bias", CUT), ["b has size 15", "'N' is 16"]),
    "patch_bias_long": ("patch_projection", Patches, tensor("proj.bias", LONGER), ["b has size 17", "'N' is 16"]),
    "style_bias_short": ("adaln_producer", Rms, tensor("dense.bias", CUT), ["b_style has size 23", "'S' is 24"]),
}
BUILT: dict[str, tuple[str, type[nn.Module], dict[str, Any], list[str]]] = {
    "key_reads_more": ("qkv_pack", Attention, {"key_reads": D + 1}, ["w_k has size 9", "'K' is 8"]),
    "key_reads_less": ("qkv_pack", Attention, {"key_reads": D - 1}, ["w_k has size 7", "'K' is 8"]),
    "down_reads_less": ("decoder_ffn", Gated, {"down": (HIDDEN - 1, D)}, ["w_down has size 15", "'F' is 16"]),
    "down_returns_more": ("decoder_ffn", Gated, {"down": (HIDDEN, D + 1)}, ["w_down has size 9", "'D' is 8"]),
    "fc2_reads_more": ("vision_ffn", Vision, {"second": (HIDDEN + 1, D)}, ["w_fc2 has size 17", "'F' is 16"]),
    "fc2_returns_less": ("vision_ffn", Vision, {"second": (HIDDEN, D - 1)}, ["size 7", "'D' is 8"]),
    "style_no_multiple_of_three": ("adaln_producer", Rms, {"width": 3 * D + 1}, ["25 is no multiple of 3"]),
    "style_of_six_pieces": ("adaln_producer", Rms, {"width": 6 * D, "pieces": 6}, ["fails on a probe"]),
    "style_of_two_pieces_for_three": ("adaln_producer", Rms, {"width": 2 * D}, ["16 is no multiple of 3"]),
    "style_no_multiple_of_two": ("adaln_producer", Layer, {"width": 2 * D + 1}, ["17 is no multiple of 2"]),
    "style_of_three_pieces_for_two": ("adaln_producer", Layer, {"width": 3 * D}, ["fails on a probe"]),
    "chain_of_three_pieces": ("modnorm_qkv_chain", Chain, {"width": 3 * D}, ["w_q has size 8", "'D' is 12"]),
    "chain_of_four_pieces": ("modnorm_qkv_chain", Chain, {"width": 4 * D}, ["w_q has size 8", "'D' is 16"]),
    "chain_of_nine_pieces": ("modnorm_qkv_chain", Chain, {"width": 9 * D}, ["w_q has size 8", "'D' is 36"]),
    "query_reads_more": ("modnorm_qkv_chain", Chain, {"query_reads": D + 1}, ["w_q has size 9", "'D' is 8"]),
}


def said(model: nn.Module, structure: str) -> str:
    seats, rest = found(nn.ModuleDict({"at": model}), structure)
    assert seats == []
    return "; ".join(row.reason for row in rest.values())


@pytest.mark.parametrize(("structure", "build", "spoil", "words"), TENSORS.values(), ids=TENSORS)
def test_tensor_of_another_size_is_refused_with_both_numbers(
    structure: str, build: type[nn.Module], spoil: Callable[[nn.Module], None], words: list[str]
) -> None:
    model = build()
    spoil(model)
    reason = said(model, structure)
    assert [word for word in words if word not in reason] == [], reason


@pytest.mark.parametrize(("structure", "build", "sizes", "words"), BUILT.values(), ids=BUILT)
def test_layer_of_another_size_is_refused_with_both_numbers(
    structure: str, build: type[nn.Module], sizes: dict[str, Any], words: list[str]
) -> None:
    reason = said(build(**sizes), structure)
    assert [word for word in words if word not in reason] == [], reason


AGREE = {(structure, build) for structure, build, *_ in (*TENSORS.values(), *BUILT.values())}


@pytest.mark.parametrize(("structure", "build"), sorted(AGREE, key=str), ids=lambda one: getattr(one, "__name__", one))
def test_sizes_that_agree_are_a_seat(structure: str, build: type[nn.Module]) -> None:
    seats, rest = found(nn.ModuleDict({"at": build()}), structure)
    assert (len(seats), rest) == (1, {})


@pytest.mark.parametrize("missing", ["q_proj", "k_proj", "v_proj"])
def test_two_siblings_are_no_pack_and_each_is_a_seat(missing: str) -> None:
    model = Attention()
    setattr(model, missing, None)
    seats, _ = discover(model.eval(), STRUCTURES)
    assert [(seat.structure, seat.id) for seat in seats] == [
        ("linear_proj", name) for name in ("q_proj", "k_proj", "v_proj") if name != missing
    ]
