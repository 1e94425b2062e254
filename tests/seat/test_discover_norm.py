"""Seats of ``norm_fused``: layer norms of any class by what they compute, each once; look-alikes with their reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.seat import NotReplaced, SeatFacts, SlotRef
from pytest_frt.errors import SpecError
from pytest_frt.seat.discover import discover
from pytest_frt.spec import seams
from pytest_frt.spec.load import load_structure

CATALOG = Path(__file__).parents[2] / "catalog"
STRUCTURES = [load_structure(path.parent) for path in sorted(CATALOG.glob("*/structure.yaml"))]
NORM_FUSED = next(one for one in STRUCTURES if one.name == "norm_fused")
WIDTH = 24


def found(model: nn.Module) -> tuple[dict[str, SeatFacts], dict[str, NotReplaced]]:
    """Return seats by path, and what is not replaced by path and kind."""
    seats, rest = discover(model.eval(), STRUCTURES)
    return {seat.id: seat for seat in seats}, {f"{row.path}:{row.kind}": row for row in rest}


class Twin(nn.Module):
    """A layer norm of its own class that keeps no normalised shape."""

    def __init__(self, attribute: str = "eps", eps: float = 1e-5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(4)
        self.weight = nn.Parameter(1 + 0.3 * torch.randn(WIDTH, generator=generator))
        self.bias = nn.Parameter(0.3 * torch.randn(WIDTH, generator=generator))
        setattr(self, attribute, eps)

    def normalised(self, x: Tensor, eps: float) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred * (centred.square().mean(-1, keepdim=True) + eps).rsqrt()

    def forward(self, x: Tensor) -> Tensor:
        eps = next(getattr(self, name) for name in ("eps", "variance_epsilon", "epsilon") if hasattr(self, name))
        return self.normalised(x, eps) * self.weight + self.bias


class RootMeanSquare(Twin):
    def normalised(self, x: Tensor, eps: float) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


class SampleVariance(Twin):
    def normalised(self, x: Tensor, eps: float) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True) + eps).rsqrt()


class NoEpsilon(Twin):
    def normalised(self, x: Tensor, eps: float) -> Tensor:
        return super().normalised(x, 0.0 * eps)


class EpsilonBesideTheRoot(Twin):
    def normalised(self, x: Tensor, eps: float) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True).sqrt() + eps)


class OffsetScale(Twin):
    def forward(self, x: Tensor) -> Tensor:
        return self.normalised(x, self.eps) * (1 + self.weight) + self.bias


class Conditioned(Twin):
    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return super().forward(x) * scale


class Adaptive(Twin):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.dense(x)


class WithResidual(Twin):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(x), x


@pytest.mark.parametrize("attribute", ["eps", "variance_epsilon", "epsilon"])
def test_twin_without_normalized_shape_is_found(attribute: str) -> None:
    seats, rest = found(nn.ModuleDict({"norm": Twin(attribute, eps=1e-4)}))
    seat = seats["norm"]
    assert (seat.structure, seat.variant, seat.dims) == ("norm_fused", {"norm": "layer"}, {"D": WIDTH})
    assert (seat.constants, seat.points["x"].module) == ({"eps": 1e-4}, "norm")
    assert seat.slots == {"w": SlotRef("norm.weight"), "b": SlotRef("norm.bias")}
    assert rest == {}


@pytest.mark.parametrize("eps", [1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_layer_norm_is_found_in_any_dtype_and_epsilon(dtype: torch.dtype, eps: float) -> None:
    seats, _ = found(nn.ModuleDict({"norm": nn.LayerNorm(WIDTH, eps=eps, dtype=dtype)}))
    assert (seats["norm"].constants, seats["norm"].dtype) == ({"eps": eps}, str(dtype).removeprefix("torch."))


def spoiled(name: str, change: Callable[[Tensor], Tensor]) -> nn.Module:
    norm = nn.LayerNorm(WIDTH)
    setattr(norm, name, nn.Parameter(change(getattr(norm, name).detach())))
    return norm


LOOK_ALIKES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "no_bias": (lambda: nn.LayerNorm(WIDTH, bias=False), "bias is missing"),
    "no_weight_no_bias": (lambda: nn.LayerNorm(WIDTH, elementwise_affine=False), "weight is missing"),
    "scale_alone": (lambda: nn.RMSNorm(WIDTH, eps=1e-6), "bias is missing"),
    "root_mean_square_with_both": (RootMeanSquare, "does not compute norm_fused"),
    "sample_variance": (SampleVariance, "does not compute norm_fused"),
    "scale_plus_one": (OffsetScale, "does not compute norm_fused"),
    "epsilon_named_and_not_added": (lambda: NoEpsilon(eps=1e-6), "1e-06 is not the epsilon it adds"),
    "tiny_epsilon_not_added": (lambda: NoEpsilon(eps=1e-12), "1e-12 is not the epsilon it adds"),
    "epsilon_beside_the_root": (EpsilonBesideTheRoot, "error"),
    "batch_norm": (lambda: nn.BatchNorm1d(WIDTH), "running_mean is no slot"),
    "group_norm": (lambda: nn.GroupNorm(1, 3), "does not compute norm_fused"),
    "second_input": (Conditioned, "the seam gives 1"),
    "returns_its_input_too": (WithResidual, "returns 2 tensors"),
    "nan_scale": (lambda: spoiled("weight", lambda w: w * torch.nan), "error nan eps"),
    "two_widths": (lambda: spoiled("bias", lambda b: b[1:]), "where 'D' is 24"),
    "two_dtypes": (lambda: spoiled("bias", lambda b: b.bfloat16()), "one floating dtype"),
}


@pytest.mark.parametrize(("build", "word"), LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_look_alike_is_refused_with_its_reason(build: Callable[[], nn.Module], word: str) -> None:
    seats, rest = found(nn.ModuleDict({"norm": build()}))
    assert "norm" not in seats
    assert rest["norm:norm"].reason.startswith("norm_fused: ")
    assert word in rest["norm:norm"].reason


def bert() -> nn.Module:
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.BertModel(hf.BertConfig(**size, vocab_size=99))


def test_norm_inside_another_seat_is_not_offered_twice() -> None:
    seats, _ = found(bert())
    norms = {path for path, seat in seats.items() if seat.structure == "norm_fused"}
    attention = {f"encoder.layer.{layer}.attention.output.LayerNorm" for layer in (0, 1)}
    assert norms == {"embeddings.LayerNorm", *attention}
    assert (
        seats["encoder.layer.0.intermediate+output"].slots["w_norm"].tensor == "encoder.layer.0.output.LayerNorm.weight"
    )


def test_norm_alone_is_offered_where_nothing_else_is_looked_for() -> None:
    seats, _ = discover(bert().eval(), [NORM_FUSED])
    assert "encoder.layer.0.output.LayerNorm" in {seat.id for seat in seats}


def test_linear_inside_a_norm_is_a_seat_and_the_norm_is_none() -> None:
    seats, rest = found(nn.ModuleDict({"norm": Adaptive()}))
    assert {path: seat.structure for path, seat in seats.items()} == {"norm.dense": "linear_proj"}
    assert set(rest) == {"norm:norm", "norm:adaln_producer"}
    assert "weight is no slot" in rest["norm:adaln_producer"].reason


def test_norm_of_two_paths_is_refused() -> None:
    norm = nn.LayerNorm(WIDTH)
    seats, rest = found(nn.ModuleDict({"first": norm, "second": norm}))
    assert seats == {}
    assert "several paths: first, second" in rest["first:norm"].reason


def test_functional_norm_beside_vectors_is_no_norm() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            return F.layer_norm(x, (WIDTH,), self.weight, self.bias)

    assert found(nn.ModuleDict({"norm": Hidden()})) == ({}, {})  # it names no epsilon, so none can be certified


RULE = NORM_FUSED.seams[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"constants": {}}, "a norm needs eps"),
        ({"layer": seams.LINEAR}, "linear is told by slots of role matmul, there is none"),
        ({"layer": seams.PATCHES}, "patches is told by slots of role matmul, there is none"),
    ],
    ids=["no_epsilon", "linear_without_matrix", "patches_without_matrix"],
)
def test_rule_that_cannot_tell_its_layer_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        seams.check(
            replace(RULE, **change),  # type: ignore[arg-type]
            NORM_FUSED.slots,
            NORM_FUSED.variants,
            NORM_FUSED.points,
            "structure.yaml",
        )
