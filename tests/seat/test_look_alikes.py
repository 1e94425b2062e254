"""Blocks that look like a seam and are none are refused, each with the reason a person needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

from pytest_frt.contracts.seat import ModuleSeat, NotReplaced, SeatFacts
from pytest_frt.seat.discover import discover
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]


def found(model: nn.Module) -> tuple[dict[str, SeatFacts], dict[str, NotReplaced]]:
    seats, rest = discover(model.eval(), STRUCTURES)
    return {seat.id: seat for seat in seats}, {f"{row.path}:{row.kind}": row for row in rest}


class Gated(nn.Module):
    def __init__(self, act: nn.Module | None = None, *, bias: bool = False) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(8, 16, bias=bias) for _ in "gu")
        self.down_proj = nn.Linear(16, 8, bias=bias)
        self.act_fn = act or nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Swapped(Gated):
    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.gate_proj(x) * self.act_fn(self.up_proj(x)))


class Gained(Gated):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 1.001


class Residual(Gated):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class TwoInputs(Gated):
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return super().forward(x) * scale


class Paired(Gated):
    def forward(self, x: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return super().forward(x), None


class Adapter(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.0


class Inline(Gated):
    def __init__(self) -> None:
        super().__init__()
        del self.act_fn

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def changed(change: Callable[[Gated], object], base: type[Gated] = Gated) -> Callable[[], Gated]:
    def build() -> Gated:
        module = base()
        change(module)
        return module

    return build


def drop(module: Gated) -> None:
    module.act_fn = nn.Sequential(nn.SiLU(), nn.Dropout(0.5).train())


def adapt(module: Gated) -> None:
    module.up_proj = Adapter(8, 16, bias=False)


def narrow(module: Gated) -> None:
    module.up_proj = nn.Linear(8, 12, bias=False)


def patch(module: Gated) -> None:
    module.up_proj.forward = module.up_proj.forward


REFUSED = {
    "biased": (lambda: Gated(bias=True), "gate_proj.bias exists"),
    "erf_gelu": (lambda: Gated(nn.GELU()), "act_fn is gelu_erf, decoder_ffn has gelu_tanh, silu"),
    "quick_gelu": (lambda: Gated(ACT2FN["quick_gelu"]), "is quick_gelu"),
    "hardswish": (lambda: Gated(nn.Hardswish()), "is hardswish"),
    "relu": (lambda: Gated(nn.ReLU()), "is relu"),
    "learned_activation": (lambda: Gated(nn.PReLU()), "is no slot"),
    "activation_inside_forward": (Inline, "there is no act_fn"),
    "gate_and_up_swapped": (Swapped, "does not compute decoder_ffn"),
    "gain_of_a_thousandth": (Gained, "does not compute decoder_ffn"),
    "hidden_residual": (Residual, "does not compute decoder_ffn"),
    "second_input": (TwoInputs, "the seam gives 1"),
    "returns_a_tuple": (Paired, "returns NoneType"),
    "extra_parameter": (
        changed(lambda m: m.register_parameter("gain", nn.Parameter(torch.ones(8)))),
        "gain is no slot",
    ),
    "extra_buffer": (changed(lambda m: m.register_buffer("mask", torch.ones(8))), "mask is no slot"),
    "adapter_on_a_linear": (changed(adapt), "Adapter's own"),
    "patched_forward": (changed(patch), "patched on the instance"),
    "parametrised_weight": (
        changed(lambda m: nn.utils.parametrizations.weight_norm(m.up_proj)),
        "weight is parametrised",
    ),
    "nan_weight": (changed(lambda m: m.up_proj.weight.data.fill_(torch.nan)), "error nan eps"),
    "mixed_dtypes": (changed(lambda m: m.up_proj.bfloat16()), "bfloat16 on cpu, float32 on cpu"),
    "widths_disagree": (
        changed(narrow),
        "size 12 where 'F' is 16",
    ),
    "no_data": (changed(lambda m: m.to("meta")), "no data"),
    "dropout_in_training": (
        changed(lambda m: setattr(m, "act_fn", nn.Sequential(nn.SiLU(), nn.Dropout(0.5).train()))),
        "",
    ),
}


@pytest.mark.parametrize(("build", "word"), REFUSED.values(), ids=REFUSED)
def test_look_alike_is_refused_with_its_reason(build: Callable[[], nn.Module], word: str) -> None:
    host = nn.ModuleDict({"mlp": build()})
    seats, rest = discover(host, STRUCTURES)
    assert "decoder_ffn" not in {seat.structure for seat in seats}
    (row,) = [row for row in rest if row.kind == "decoder_ffn"]
    assert row.path == "mlp"
    assert word in row.reason, row.reason


def test_the_plain_one_is_a_seat() -> None:
    seats, rest = found(nn.ModuleDict({"mlp": Gated()}))
    assert (list(seats), rest) == (["mlp"], {})


def test_linears_of_a_refused_block_are_seats_of_their_own() -> None:
    seats, _ = found(nn.ModuleDict({"mlp": Gated(nn.GELU(), bias=True)}))
    assert {seat.structure for seat in seats.values()} == {"linear_proj"}
    assert seats["mlp.up_proj"].variant == {"bias": "add"}


def test_module_at_two_paths_is_refused() -> None:
    shared = Gated()
    seats, rest = found(nn.ModuleDict({"a": shared, "b": shared}))
    assert seats == {}
    assert "a, b" in rest["a:decoder_ffn"].reason
    assert "several paths" in rest["a.up_proj:linear"].reason


def test_two_modules_may_share_a_tensor() -> None:
    a, b = Gated(), Gated()
    b.up_proj.weight = a.up_proj.weight
    assert set(found(nn.ModuleDict({"a": a, "b": b}))[0]) == {"a", "b"}


def test_small_weights_are_not_worth_a_seat() -> None:
    (structure,) = [s for s in STRUCTURES if s.name == "decoder_ffn"]
    seams = tuple(replace(rule, min_elements=385) for rule in structure.seams)
    seats, rest = discover(Gated().eval(), [replace(structure, seams=seams)])
    assert seats == ()
    assert rest[0].reason.startswith("384 weight elements, fewer than the 385")


@pytest.mark.parametrize(("child", "count"), [("up_proj", 1), ("", 1), ("norm", 0), ("up_proj.weight", 0)])
def test_point_is_read_at_a_module_of_the_host(child: str, count: int) -> None:
    (structure,) = [s for s in STRUCTURES if s.name == "decoder_ffn"]
    seams = tuple(replace(rule, points={**(rule.points or {}), "x_after_norm": child}) for rule in structure.seams)
    seats, rest = discover(Gated().eval(), [replace(structure, seams=seams)])
    said = [row.reason for row in rest if row.kind == "decoder_ffn"]
    assert len(seats) == count
    assert said == ([] if count else [f"there is no module {child} to read point x_after_norm at"])


def test_root_module_is_a_seat() -> None:
    seats, _ = discover(Gated().eval(), STRUCTURES)
    assert [seat.seat for seat in seats] == [ModuleSeat("")]
