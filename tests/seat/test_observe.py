"""What a host does at run time decides whether a seat can be served: siblings, order, rows, dtypes, keyword calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.seat.discover import discover
from pytest_frt.seat.observe import Observation, observe, split
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
ATTENTION = "model.layers.0.self_attn"


def seen(model: nn.Module, run: Callable[[], object]) -> dict[str, Observation]:
    seats, _ = discover(model.eval(), STRUCTURES)
    return {one.seat: one for one in observe(model, run, seats, STRUCTURES)}


def test_generation_shows_rows_of_both_regimes() -> None:
    config = hf.Qwen3Config(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, vocab_size=99, pad_token_id=0, eos_token_id=98,
    )  # fmt: skip
    model = hf.Qwen3ForCausalLM(config)
    ids = torch.arange(1, 8)[None]
    found = seen(model, lambda: model.generate(ids, max_new_tokens=3, min_new_tokens=3, do_sample=False))
    assert found["model.layers.0.mlp"].rows == (7, 1, 1)
    assert found["lm_head"].rows == (1, 1, 1)
    assert found[f"{ATTENTION}.q_proj+k_proj+v_proj"].order == tuple(f"{ATTENTION}.{n}_proj" for n in "qkv")
    assert {one.fault for one in found.values()} == {""}
    assert {one.dtypes for one in found.values()} == {("float32",)}


def test_encoder_shows_chain_and_siblings() -> None:
    config = hf.BertConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=99
    )
    model = hf.BertModel(config)
    found = seen(model, lambda: model(input_ids=torch.arange(1, 8)[None]))
    assert found["encoder.layer.0.intermediate+output"].rows == (7,)
    assert found["pooler.dense"].rows == (1,)
    assert {one.fault for one in found.values()} == {""}


class Tapped(nn.Module):
    """A BERT block whose intermediate another norm reads as well: before its output, or after."""

    def __init__(self, *, early: bool) -> None:
        super().__init__()
        config = hf.BertConfig(hidden_size=8, intermediate_size=16, num_attention_heads=1)
        self.intermediate = hf.models.bert.modeling_bert.BertIntermediate(config)
        self.output = hf.models.bert.modeling_bert.BertOutput(config)
        self.norm, self.early = nn.LayerNorm(16), early

    def forward(self, x: Tensor) -> Tensor:
        h = self.intermediate(x)
        read = self.norm(h) if self.early else None
        y: Tensor = self.output(h, x)
        return y + (self.norm(h) if read is None else read)[..., :8]


@pytest.mark.parametrize("early", [True, False], ids=["before_the_output", "after_the_output"])
def test_chain_whose_middle_another_module_reads_is_a_fault(*, early: bool) -> None:
    model = Tapped(early=early)
    found = seen(model, lambda: model(torch.randn(1, 3, 8)))
    assert found["intermediate+output"].fault == "norm reads the output of intermediate as well"


class Attention(nn.Module):
    """Calls its three projections on what ``plan`` says, in its order."""

    def __init__(self, plan: Callable[[Attention, Tensor, Tensor], object]) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(8, 8, bias=False) for _ in "qkv")
        self.plan = plan

    def forward(self, x: Tensor, memory: Tensor) -> object:
        return self.plan(self, x, memory)


def plain(at: Attention, x: Tensor, _memory: Tensor) -> object:
    return at.q_proj(x), at.k_proj(x), at.v_proj(x)


def crossed(at: Attention, x: Tensor, memory: Tensor) -> object:
    return at.q_proj(x), at.k_proj(memory), at.v_proj(memory)


def copied(at: Attention, x: Tensor, _memory: Tensor) -> object:
    return at.q_proj(x), at.k_proj(x.clone()), at.v_proj(x)


def freed(at: Attention, x: Tensor, _memory: Tensor) -> object:
    return at.q_proj(x + 1), at.k_proj(x + 2), at.v_proj(x + 3)


def sliced(at: Attention, x: Tensor, _memory: Tensor) -> object:
    return at.q_proj(x), at.k_proj(x[:, :1]), at.v_proj(x)


def written(at: Attention, x: Tensor, _memory: Tensor) -> object:
    q = at.q_proj(x)
    x += 1
    return q, at.k_proj(x), at.v_proj(x)


def key_first(at: Attention, x: Tensor, _memory: Tensor) -> object:
    return at.k_proj(x), at.q_proj(x), at.v_proj(x)


def query_alone(at: Attention, x: Tensor, _memory: Tensor) -> object:
    return at.q_proj(x)


FAULTS = {
    "cross_attention": (crossed, "k_proj reads another tensor than q_proj"),
    "copied_input": (copied, "k_proj reads another tensor than q_proj"),
    "same_address_after_a_free": (freed, "k_proj reads another tensor than q_proj"),
    "sliced_input": (sliced, "k_proj reads another tensor than q_proj"),
    "written_between": (written, "the input is written to between q_proj and k_proj"),
    "producer_not_first": (key_first, "k_proj is called without q_proj before it"),
    "sibling_skipped": (query_alone, "k_proj, v_proj is not called after q_proj"),
}


@pytest.mark.parametrize(("plan", "fault"), FAULTS.values(), ids=FAULTS)
def test_siblings_that_are_none_are_refused(plan: Callable[..., object], fault: str) -> None:
    model = Attention(plan)
    seats, _ = discover(model.eval(), STRUCTURES)
    x, memory = torch.randn(1, 4, 8), torch.randn(1, 4, 8)
    kept, gone = split(seats, observe(model, lambda: [model(x.clone(), memory) for _ in range(2)], seats, STRUCTURES))
    assert kept == ()
    assert fault in gone[0].reason


def test_plain_siblings_pass() -> None:
    model = Attention(plain)
    one = seen(model, lambda: [model(torch.randn(rows, 8), torch.randn(1, 8)) for rows in (3, 5)])[
        "q_proj+k_proj+v_proj"
    ]
    assert (one.calls, one.rows, one.fault) == (2, (3, 5), "")


def test_order_must_stay_the_same() -> None:
    orders = iter(("kv", "vk"))

    def turning(at: Attention, x: Tensor, _memory: Tensor) -> object:
        at.q_proj(x)
        return [getattr(at, f"{name}_proj")(x) for name in next(orders)]

    model = Attention(turning)
    x = torch.randn(2, 8)
    one = seen(model, lambda: [model(x, x) for _ in range(2)])["q_proj+k_proj+v_proj"]
    assert "the places are called as" in one.fault


class Split(nn.Module):
    """A post-norm block whose second half adds what ``residual`` picks."""

    def __init__(self, residual: Callable[[Tensor], Tensor], hidden: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        config = hf.BertConfig(hidden_size=8, intermediate_size=16, num_attention_heads=1)
        self.intermediate = hf.models.bert.modeling_bert.BertIntermediate(config)
        self.output = hf.models.bert.modeling_bert.BertOutput(config)
        self.residual, self.hidden = residual, hidden

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.hidden(self.intermediate(x)), self.residual(x))


def same(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("residual", "hidden", "fault"),
    [
        (same, same, ""),
        (torch.clone, same, "output is given a tensor that is not the input of intermediate"),
        (same, torch.clone, "output reads something else than the output of intermediate"),
    ],
    ids=["plain", "other_residual", "other_hidden"],
)
def test_chain_hands_on_its_own_tensors(
    residual: Callable[[Tensor], Tensor], hidden: Callable[[Tensor], Tensor], fault: str
) -> None:
    model = Split(residual, hidden)
    assert seen(model, lambda: model(torch.randn(3, 8)))["intermediate+output"].fault == fault


class Keyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(input=x)


def test_keyword_call_is_seen() -> None:
    model = Keyword()
    one = seen(model, lambda: model(torch.randn(2, 3, 8)))["dense"]
    assert (one.keyword, one.rows, one.fault) == (True, (6,), "")


def test_module_that_is_never_called_is_dead() -> None:
    model = Keyword()
    one = seen(model, lambda: model.dense.forward(torch.randn(2, 8)))["dense"]
    assert (one.calls, one.fault) == (0, "it is never called as a module")


def test_other_dtype_is_named() -> None:
    model = Keyword()

    def run() -> object:
        with torch.autocast("cpu", torch.bfloat16):
            return model(torch.randn(2, 8).bfloat16())

    assert "called with bfloat16, its weights are float32" in seen(model, run)["dense"].fault


def test_inference_tensors_are_watched() -> None:
    model = Attention(plain)

    def run() -> object:
        with torch.inference_mode():
            return model(torch.randn(2, 8), torch.randn(1, 8))

    assert seen(model, run)["q_proj+k_proj+v_proj"].fault == ""


def test_hooks_are_gone_even_after_a_crash() -> None:
    model = Keyword()
    seats: tuple[SeatFacts, ...] = discover(model.eval(), STRUCTURES)[0]
    with pytest.raises(RuntimeError):
        observe(model, lambda: model(torch.randn(2, 3)), seats, STRUCTURES)
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
