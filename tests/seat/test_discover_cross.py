"""Seats of ``cadence_static``: keys and values beside a query that reads another width, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, NotReplaced, SeatFacts, SlotRef
from pytest_frt.seat import tree
from pytest_frt.seat.discover import discover
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
NAME = "cadence_static"
NAMES = [("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("to_q", "to_k", "to_v"), ("q", "k", "v")]
OWN, OTHER = 16, 24


def found(model: nn.Module) -> tuple[dict[str, SeatFacts], list[NotReplaced]]:
    """Return the seats of the structure by path, and everything that is said not to be one of its seats."""
    seats, rest = discover(model.eval(), STRUCTURES)
    return {one.id: one for one in seats if one.structure == NAME}, [row for row in rest if row.kind == NAME]


def attention(names: tuple[str, str, str] = NAMES[0], *, own: int = OWN, other: int = OTHER, bias: bool = True) -> Any:
    """Return three siblings; the query reads ``own`` features, key and value read ``other``."""
    layers = [nn.Linear(width, OWN, bias=bias) for width in (own, other, other)]
    return nn.ModuleDict({"attn": nn.ModuleDict(dict(zip(names, layers, strict=True)))})


@pytest.mark.parametrize("names", NAMES, ids="-".join)
@pytest.mark.parametrize(("bias", "variant"), [(True, "add"), (False, "none")], ids=["biased", "plain"])
def test_key_and_value_of_another_width_are_a_seat_each(
    names: tuple[str, str, str], variant: str, *, bias: bool
) -> None:
    seats, rest = found(attention(names, bias=bias))
    assert [(seat.seat, seat.dims, seat.variant) for seat in seats.values()] == [
        (ModuleSeat(f"attn.{name}"), {"K": OTHER, "N": OWN}, {"bias": variant}) for name in names[1:]
    ]
    assert seats[f"attn.{names[1]}"].slots["w"] == SlotRef(f"attn.{names[1]}.weight", transpose=True)
    assert rest == []


@pytest.mark.parametrize("names", NAMES, ids="-".join)
def test_self_attention_is_none(names: tuple[str, str, str]) -> None:
    assert found(attention(names, other=OWN)) == ({}, [])


class Adapted(nn.Linear):
    """A linear with something of its own in its forward."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def without_query(model: Any) -> None:
    del model.attn.q_proj


def adapted_query(model: Any) -> None:
    model.attn.q_proj = Adapted(OWN, OWN)


def query_that_only_looks_up(model: Any) -> None:
    model.attn.q_proj = nn.Embedding(9, OWN)


@pytest.mark.parametrize("change", [without_query, adapted_query, query_that_only_looks_up], ids=lambda f: f.__name__)
def test_without_a_plain_query_nothing_tells_cross_attention(change: Callable[[Any], None]) -> None:
    model = attention()
    change(model)
    assert found(model) == ({}, [])


def test_one_sibling_of_another_width_is_the_one_seat() -> None:
    model = attention()
    model.attn.k_proj = nn.Linear(OWN, OWN)
    assert set(found(model)[0]) == {"attn.v_proj"}


def test_key_that_is_no_plain_linear_is_refused_with_the_reason() -> None:
    model = attention()
    model.attn.k_proj = Adapted(OTHER, OWN)
    seats, rest = found(model)
    assert set(seats) == {"attn.v_proj"}
    assert [row.path for row in rest] == ["attn.k_proj"]
    assert "its forward is Adapted's own" in rest[0].reason


def test_query_transformer_has_seats_where_it_reads_the_encoder() -> None:
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2}
    model = hf.Blip2QFormerModel(hf.Blip2QFormerConfig(**size, encoder_hidden_size=48, cross_attention_frequency=2))
    wanted = {f"encoder.layer.{i}.crossattention.attention.{name}" for i in (0, 2) for name in ("key", "value")}
    assert set(found(model)[0]) == wanted


def test_cross_attention_of_equal_widths_is_left_to_other_structures() -> None:
    size = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    assert found(hf.WhisperModel(hf.WhisperConfig(**size, **heads, **tokens))) == ({}, [])


def test_linear_projections_take_what_is_left() -> None:
    seats, _ = discover(attention().eval(), STRUCTURES)
    assert {seat.id for seat in seats if seat.structure == "linear_proj"} == {"attn.q_proj"}


def test_width_is_that_of_the_stored_weight() -> None:
    model = attention()
    assert tree.input_width(model.attn, "k_proj.weight") == OTHER
    assert tree.input_width(model.attn, "o_proj.weight") == 0
    nn.utils.parametrizations.weight_norm(model.attn.k_proj)
    with torch.no_grad():
        assert tree.input_width(model.attn, "k_proj.weight") == 0
