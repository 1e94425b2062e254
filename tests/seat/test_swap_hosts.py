"""Seats in models of a real library: same answers bit for bit, same generation, same compiled graph, exact detach."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import Impl
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, Seat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import Structure, TensorSpec
from pytest_frt.seat.bind import BoundSeat, bind_unit
from pytest_frt.seat.swap import attach

transformers = pytest.importorskip("transformers")
WIDTH = 32
IDS = torch.tensor([[3, 5, 7, 11]])


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def decoder() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.Gemma3TextConfig(
        vocab_size=64, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.Gemma3ForCausalLM(config).eval()


def encoder() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64,
    )  # fmt: skip
    return transformers.BertModel(config).eval()


class Exactly(nn.Module):
    """An impl that computes with copies of the host's own modules, so that its answers are the host's bits."""

    def __init__(self, run: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: Tensor) -> Any:
        return self.run(x)


def bind(model: nn.Module, seat: Seat, weight: str, run: Callable[[Tensor], Any], outputs: int) -> BoundSeat:
    impl = ModuleType("exactly")
    impl.IMPL = Impl("exactly", "any", 1, ("none",), "acme/none", {"none": (1, 64)})  # type: ignore[attr-defined]
    impl.bind = lambda _seat, _scales, _kernel: Exactly(run)  # type: ignore[attr-defined]
    facts = SeatFacts("any", seat, {}, {"D": WIDTH}, {"w": SlotRef(weight)}, {}, "float32", {})
    tensors = tuple(TensorSpec(f"y{index}", ("M", "D")) for index in range(outputs))
    structure = Structure("any", 1, "", (TensorSpec("x", ("M", "D")),), tensors, (), {}, (), (), (), "", "", "")
    (bound,), refused = bind_unit(
        model, [facts], structure=structure, impl=impl, scheme="none", scales={}, kernel=impl, rows=(1, 64)
    )
    assert refused == ()
    return bound


def copies(model: nn.Module, *paths: str) -> list[nn.Module]:
    return [copy.deepcopy(model.get_submodule(path)) for path in paths]


def fanout(model: nn.Module, at: str, names: tuple[str, ...]) -> BoundSeat:
    paths = tuple(f"{at}.{name}" for name in names)
    parts = copies(model, *paths)
    run = lambda x: tuple(part(x) for part in parts)  # noqa: E731
    return bind(model, PairSeat(paths[0], paths[1:]), f"{paths[0]}.weight", run, 3)


def decoder_seats(model: nn.Module) -> list[BoundSeat]:
    out = []
    for layer in (f"model.layers.{index}" for index in range(2)):
        (mlp,) = copies(model, f"{layer}.mlp")
        out.append(bind(model, ModuleSeat(f"{layer}.mlp"), f"{layer}.mlp.up_proj.weight", mlp, 1))
        out.append(fanout(model, f"{layer}.self_attn", ("q_proj", "k_proj", "v_proj")))
    return out


def encoder_seats(model: nn.Module) -> list[BoundSeat]:
    out = []
    for layer in (f"encoder.layer.{index}" for index in range(2)):
        first, second = copies(model, f"{layer}.intermediate", f"{layer}.output")
        run = lambda x, first=first, second=second: second(first(x), x)  # noqa: E731
        seat = PairSeat(f"{layer}.intermediate", (f"{layer}.output",))
        out.append(bind(model, seat, f"{layer}.intermediate.dense.weight", run, 1))
        out.append(fanout(model, f"{layer}.attention.self", ("query", "key", "value")))
    return out


HOSTS = {"decoder": (decoder, decoder_seats), "encoder": (encoder, encoder_seats)}


@pytest.mark.parametrize("host", HOSTS)
def test_answers_are_the_hosts_and_every_call_is_served(host: str) -> None:
    build, seats = HOSTS[host]
    model = build()
    before, modules = model(IDS)[0], [id(module) for module in model.modules()]
    attachment = attach(model, seats(model))
    assert torch.equal(model(IDS)[0], before)
    assert [(one.served, one.band, one.fallbacks) for one in attachment.ledger] == [(1, 0, 0)] * 4
    attachment.detach()
    assert [id(module) for module in model.modules()] == modules
    assert torch.equal(model(IDS)[0], before)


def test_generation_is_the_hosts() -> None:
    model = decoder()
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    before = model.generate(IDS, **options)
    attachment = attach(model, decoder_seats(model))
    assert torch.equal(model.generate(IDS, **options), before)
    assert {one.served for one in attachment.ledger} == {5}


@pytest.mark.parametrize("host", HOSTS)
def test_whole_model_compiles_in_one_graph(host: str) -> None:
    build, seats = HOSTS[host]
    model = build()
    before = model(IDS)[0]
    attachment = attach(model, seats(model))
    run = torch.compile(lambda ids: model(ids)[0], fullgraph=True, backend="eager")
    assert torch.equal(run(IDS), before)
    assert torch.equal(run(IDS), before)
    assert [(one.served, one.fallbacks) for one in attachment.ledger] == [(2, 0)] * 4


def test_saved_checkpoint_is_the_hosts(tmp_path: Any) -> None:
    model = decoder()
    attach(model, decoder_seats(model))
    model.save_pretrained(tmp_path)
    loaded = transformers.Gemma3ForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(loaded(IDS)[0], decoder()(IDS)[0])
