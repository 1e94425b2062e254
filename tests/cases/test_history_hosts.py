"""Bug history, hosts: what is no seat is listed and raises nothing, what lacks its scale or its siblings is refused."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.impl import Impl, Scales
from pytest_frt.contracts.seat import ModuleSeat, NotReplaced, PairSeat, SeatFacts, SlotRef
from pytest_frt.contracts.verdict import Pass, Refusal, Verdict
from pytest_frt.measure.metrics import host_metrics
from pytest_frt.rules.bands import judge_samples
from pytest_frt.seat import discover as discovery
from pytest_frt.seat import tree
from pytest_frt.seat.bind import BoundSeat, bind_unit, envelope_faults
from pytest_frt.seat.discover import discover
from pytest_frt.seat.observe import observe, split
from pytest_frt.seat.swap import attach

from .conftest import REGISTRY

STRUCTURES = [entry.spec for entry in REGISTRY.structures.values()]
BY_NAME = {structure.name: structure for structure in STRUCTURES}
WIDTH = 16


def found(model: nn.Module) -> tuple[tuple[SeatFacts, ...], dict[str, NotReplaced]]:
    seats, rest = discover(model.eval(), STRUCTURES)
    return seats, {row.path: row for row in rest}


class Stranger(nn.Module):
    """Has the names of seams and none of their modules."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.conv, self.embed = nn.LSTM(8, 8), nn.Conv2d(3, 4, 3), nn.Embedding(4, 8)
        self.gate_proj, self.up_proj = nn.Conv1d(8, 8, 1), nn.Parameter(torch.ones(8))
        self.down_proj, self.fc1, self.act_fn, self.q_proj = torch.relu, "fc1", 3, None
        self.parts = nn.ParameterList([nn.Parameter(torch.ones(3))])

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def refuses_before_it_looks(candidate: discovery.Candidate) -> bool:
    """Ask a module for the weight of its gate before anybody knows whether it has one."""
    return bool(candidate.module.gate_proj.weight.shape[1] == candidate.module.up_proj.weight.shape[1])


def test_unrelated_host_has_no_seat_and_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(nn.Sequential(Stranger(), nn.Tanh())) == ((), {})
    monkeypatch.setattr(discovery, "present", refuses_before_it_looks)
    with pytest.raises(AttributeError):
        found(nn.Sequential(Stranger(), nn.Tanh()))


class TwoGroups(nn.Module):
    """Joint attention: three projections of the image, three of the text, equal in every size."""

    NAMES = ("q_proj", "k_proj", "v_proj", "add_q_proj", "add_k_proj", "add_v_proj")

    def __init__(self, *, crossed: bool = False) -> None:
        super().__init__()
        self.crossed = crossed
        for name in self.NAMES:
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=False))

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        own = self.q_proj(x) + self.k_proj(x) + self.v_proj(text if self.crossed else x)
        return own + self.add_q_proj(text) + self.add_k_proj(text) + self.add_v_proj(text)


def groups(*, crossed: bool) -> tuple[list[tuple[str, ...]], list[str]]:
    model = nn.ModuleDict({"attn": TwoGroups(crossed=crossed)}).eval()
    seats, _ = discover(model, [BY_NAME["qkv_pack"]])
    x, text = torch.randn(4, WIDTH), torch.randn(4, WIDTH)
    seen = observe(model, lambda: model["attn"](x, text), seats, [BY_NAME["qkv_pack"]])
    kept, gone = split(seats, seen)
    return [tuple(path.partition(".")[2] for path in one.seat.places) for one in kept], [row.reason for row in gone]


def test_two_groups_of_one_module_are_two_packs_and_never_mix() -> None:
    assert groups(crossed=False) == ([TwoGroups.NAMES[:3], TwoGroups.NAMES[3:]], [])
    kept, reasons = groups(crossed=True)
    assert kept == [TwoGroups.NAMES[3:]]
    assert "v_proj reads another tensor than attn.q_proj" in reasons[0]


class FusedNorm(nn.Module):
    """A layer norm of a fused library: its tensors and eps, and no ``normalized_shape``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH)), 1e-5

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


def accounted(model: nn.Module) -> set[str]:
    seats, rest = found(model)
    return {place for seat in seats for place in seat.seat.places} | rest.keys()


def test_norm_without_normalized_shape_is_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.ModuleDict({"fused": FusedNorm(), "plain": nn.LayerNorm(WIDTH)})
    assert accounted(model) == {"fused", "plain"}
    monkeypatch.setattr(tree, "is_norm", lambda module: hasattr(module, "normalized_shape"))
    seats, rest = discover(model.eval(), [])
    assert (seats, [row.path for row in rest]) == ((), ["plain"])  # asked for by attribute, the twin vanishes


def codes(*, scale: bool) -> nn.Linear:
    """Return a linear of float8 codes; ``scale`` says whether theirs is kept beside them."""
    layer = nn.Linear(WIDTH, WIDTH, bias=False)
    layer.weight = nn.Parameter(layer.weight.detach().to(torch.float8_e4m3fn), requires_grad=False)
    if scale:
        layer.register_buffer("weight_scale", torch.full((), 0.5))
    return layer


def bound(dtypes: tuple[str, ...]) -> tuple[tuple[BoundSeat, ...], tuple[Refusal, ...]]:
    model = nn.ModuleDict({"proj": codes(scale=False)}).eval()
    seats, _ = found(model)
    impl = ModuleType("codes")
    impl.IMPL = Impl("codes", "linear_proj", 1, ("none",), "toy/kernel", {"none": (1, 8)}, dtypes=dtypes)  # type: ignore[attr-defined]
    impl.bind = lambda *_: nn.Identity()  # type: ignore[attr-defined]
    known: dict[str, Any] = {"scheme": "none", "scales": {}, "kernel": impl, "rows": (1, 8)}
    return bind_unit(model, seats, structure=BY_NAME["linear_proj"], impl=impl, **known)


def test_float8_codes_beside_a_scale_are_no_seat() -> None:
    seats, rest = found(nn.ModuleDict({"proj": codes(scale=True)}))
    assert seats == ()
    assert "weight_scale is no slot" in rest["proj"].reason


def test_float8_codes_without_a_scale_are_refused_at_bind() -> None:
    assert [refusal.reason for refusal in bound(("float32",))[1]] == ["dtype"]
    assert len(bound(("float32", "float8_e4m3fn"))[0]) == 1  # an impl that takes codes for values
    shipped = [entry.impl for entry in REGISTRY.impls.values()]
    assert [impl.name for impl in shipped if any("float8" in dtype for dtype in impl.dtypes)] == []


BANDS = [(0, 8), (1, 1), (1, 8), (8, 8), (1, 9), (9, 9)]
SIZES = [31, 32, 33, 64, 16384, 16385, 16416]


def taken(impl: Impl) -> set[tuple[tuple[int, int], int]]:
    """Return the row bands and sizes at which a seat lies in what an impl declares."""
    seat = SeatFacts("linear_proj", ModuleSeat("proj"), {"bias": "none"}, {}, {}, {}, "float32", {})
    return {
        (band, size)
        for band in BANDS
        for size in SIZES
        if not list(
            envelope_faults(
                impl, replace(seat, dims={"K": size, "N": 64}), scheme="w4a16_decode", scales=Scales(), rows=band
            )
        )
    }


def test_weights_of_four_bits_are_taken_at_no_row_and_no_size_beyond_their_edges() -> None:
    own = REGISTRY.impls["linear_proj/torch_int4"].impl
    assert taken(own) == {(band, size) for band in [(1, 1), (1, 8), (8, 8)] for size in (32, 64, 16384)}
    assert taken(replace(own, rows={"w4a16_decode": (1, 9)})) - taken(own)
    assert taken(replace(own, multiples={})) - taken(own) == {(b, s) for b in [(1, 1), (1, 8), (8, 8)] for s in (33,)}


class PostNorm(nn.Module):
    """A block of two halves whose intermediate a norm of the host may read as well."""

    def __init__(self, *, read: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.norm = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        y: Tensor = self.second(hidden)
        return y + self.norm(hidden) if self.read else y


def chained(model: PostNorm) -> BoundSeat:
    first, second, part = model.first, model.second, nn.Module()
    part.forward = lambda x: F.linear(F.linear(x, first.weight, first.bias), second.weight, second.bias)
    slots = {"w1": SlotRef("first.weight"), "w2": SlotRef("second.weight")}
    facts = SeatFacts("chain", PairSeat("first", ("second",)), {}, {}, slots, {}, "float32", {})
    return BoundSeat(facts, part, WIDTH, (WIDTH,), (1, 8), "planted", "none")


@torch.no_grad()
def composed(*, read: bool) -> Verdict:
    model = PostNorm(read=read).eval()
    inputs = [torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(seed)) for seed in range(12)]
    wanted = [model(x) for x in inputs]
    with attach(model, [chained(model)]):
        got = [model(x) for x in inputs]
    pairs = enumerate(zip(got, wanted, strict=True))
    return judge_samples("values", [host_metrics(mine, its, "values", index) for index, (mine, its) in pairs])


def test_half_of_a_pair_that_reaches_a_norm_of_the_host_is_refused_by_the_composed_host() -> None:
    assert isinstance(composed(read=False), Pass)
    assert isinstance(composed(read=True), Refusal)
