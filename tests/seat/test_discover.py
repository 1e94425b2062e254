"""Seats of real library classes are found by slots and behaviour, and look-alikes are refused with a reason."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers as hf
from torch import nn

from pytest_frt.contracts.host import HostSpec
from pytest_frt.contracts.seat import NotReplaced, PairSeat, SeatFacts, SlotRef
from pytest_frt.seat import tree
from pytest_frt.seat.discover import discover
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 99}
DECODER = {**SMALL, "num_key_value_heads": 2, "head_dim": 16}
ATTENTION = "model.layers.{}.self_attn"


def gemma3() -> nn.Module:
    return hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**DECODER))


def qwen3() -> nn.Module:
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**DECODER, tie_word_embeddings=True))


def bert() -> nn.Module:
    return hf.BertModel(hf.BertConfig(**SMALL))


def found(model: nn.Module, **options: HostSpec) -> tuple[dict[str, SeatFacts], dict[str, NotReplaced]]:
    """Return seats and rows of what is not replaced, each by path."""
    seats, rest = discover(model.eval(), STRUCTURES, **options)
    return {seat.id: seat for seat in seats}, {f"{row.path}:{row.kind}": row for row in rest}


@pytest.mark.parametrize(("build", "activation"), [(gemma3, "gelu_tanh"), (qwen3, "silu")], ids=["gemma3", "qwen3"])
def test_decoder_seats(build: Callable[[], nn.Module], activation: str) -> None:
    seats, rest = found(build())
    kinds = Counter(seat.structure for seat in seats.values())
    assert kinds == {"decoder_ffn": 2, "qkv_pack": 2, "linear_proj": 3}
    mlp = seats["model.layers.1.mlp"]
    assert mlp.variant == {"activation": activation, "norm": "none", "residual": "none"}
    assert (mlp.dims, mlp.dtype) == ({"D": 32, "F": 64}, "float32")
    assert mlp.slots["w_down"] == SlotRef("model.layers.1.mlp.down_proj.weight", transpose=True)
    assert {name: at.module for name, at in mlp.points.items()} == {
        "x_after_norm": "model.layers.1.mlp",
        "act_after_mul": "model.layers.1.mlp.down_proj",
    }
    assert {row.kind for row in rest.values()} == {"norm"}


def test_siblings_are_one_pair_in_order() -> None:
    seats, _ = found(gemma3())
    at = ATTENTION.format(0)
    pair = seats[f"{at}.q_proj+k_proj+v_proj"]
    assert pair.seat == PairSeat(f"{at}.q_proj", (f"{at}.k_proj", f"{at}.v_proj"))
    assert pair.dims == {"K": 32, "Nq": 64, "Nk": 32, "Nv": 32}
    assert (pair.variant, pair.points["x"].module) == ({"bias": "none"}, f"{at}.q_proj")


def test_tied_head_is_a_seat_on_the_shared_tensor() -> None:
    model = qwen3()
    seats, _ = found(model)
    assert seats["lm_head"].dims == {"K": 32, "N": 99}
    assert tree.tensors_under(model, ["lm_head"])["lm_head.weight"] is model.get_input_embeddings().weight


def test_bert_block_is_a_chain_over_two_modules() -> None:
    seats, rest = found(bert())
    block = seats["encoder.layer.1.intermediate+output"]
    assert block.variant == {"activation": "gelu_erf", "norm": "post", "residual": "add"}
    assert (block.constants, block.seat.places[1]) == ({"eps": 1e-12}, "encoder.layer.1.output")
    assert seats["encoder.layer.0.attention.self.query+key+value"].variant == {"bias": "add"}
    assert seats["encoder.layer.0.attention.output.dense"].slots["b"] == SlotRef(
        "encoder.layer.0.attention.output.dense.bias"
    )
    assert "encoder.layer.1.output.LayerNorm" not in seats
    assert rest == {}


@pytest.mark.parametrize("build", [gemma3, qwen3, bert])
def test_every_linear_and_norm_is_accounted_for_once(build: Callable[[], nn.Module]) -> None:
    model = build()
    seats, rest = found(model)
    layers = {path for path, module in model.named_modules() if tree.is_matrix_layer(module) or tree.is_norm(module)}
    covered = {path for path in layers if any(tree.under_any(path, seat.seat.places) for seat in seats.values())}
    listed = {row.path for row in rest.values() if row.kind in ("linear", "norm")}
    assert covered | listed == layers
    assert not covered & listed
    places = [place for seat in seats.values() for place in seat.seat.places]
    assert len(set(places)) == len(places)


class Sequence(nn.Module):
    """Siblings, one of them biased; a router of its own; a norm with an adapter inside."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.v_proj = nn.Linear(8, 8), nn.Linear(8, 8)
        self.k_proj = nn.Linear(8, 8, bias=False)
        self.norm = nn.LayerNorm(8)
        self.bilinear = nn.Embedding(4, 8)


def test_mixed_biases_are_no_pack() -> None:
    seats, rest = found(Sequence())
    assert set(seats) == {"q_proj", "k_proj", "v_proj", "norm"}
    assert "k_proj.bias is missing" in rest["q_proj:qkv_pack"].reason
    assert set(rest) == {"q_proj:qkv_pack"}


def test_whole_layer_is_not_taken_for_its_two_linears() -> None:
    config = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    seats, rest = found(hf.WhisperModel(hf.WhisperConfig(**config, **heads, **tokens)))
    assert {seat.structure for seat in seats.values()} == {"linear_proj", "norm_fused"}
    assert "is no slot of vision_ffn" in rest["encoder.layers.0:vision_ffn"].reason


def test_transposed_library_layer_is_listed_and_not_taken() -> None:
    seats, rest = found(
        hf.GPT2Model(hf.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=99, bos_token_id=1, eos_token_id=1))
    )
    assert set(seats) == {"h.0.ln_1", "h.0.ln_2", "ln_f"}
    assert "Conv1D's own" in rest["h.0.mlp.c_fc:linear"].reason


SPEC = HostSpec(
    "h", "", "values", ("tiny",), {}, (), (), (), {}, 1, 1, {}, multimodal=False, digest="", source_digest="", folder=""
)


def test_host_leaves_paths_out_with_a_reason() -> None:
    spec = replace(SPEC, exclude={"*.0.mlp": "dead code", "lm_head": "never called"})
    seats, rest = found(gemma3(), host_spec=spec)
    assert "model.layers.1.mlp" in seats
    assert not {seat for seat in seats if seat.startswith(("model.layers.0.mlp", "lm_head"))}
    assert rest["model.layers.0.mlp.up_proj:linear"].reason == "left out by the host: dead code"


def test_host_names_the_structures_to_look_for() -> None:
    seats, rest = found(gemma3(), host_spec=replace(SPEC, structures=("decoder_ffn",)))
    assert {seat.structure for seat in seats.values()} == {"decoder_ffn"}
    assert "no structure looked for" in rest["lm_head:linear"].reason


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes_are_found_too(dtype: torch.dtype) -> None:
    seats, _ = found(gemma3().to(dtype))
    assert Counter(seat.structure for seat in seats.values())["decoder_ffn"] == 2
    assert {seat.dtype for seat in seats.values()} == {str(dtype).removeprefix("torch.")}


def test_the_model_is_left_as_it_was() -> None:
    model = gemma3().eval()
    before, state = repr(model), copy.deepcopy(model.state_dict())
    torch.manual_seed(5)
    mark = torch.get_rng_state()
    discover(model, STRUCTURES)
    assert repr(model) == before
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), mark)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
