"""``modnorm_qkv_chain``: the reference against library modules, its near miss, and what its variants hold."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file

FOLDER = Path(__file__).parents[2] / "catalog" / "modnorm_qkv_chain"
STRUCTURE = load_structure(FOLDER)
REFERENCE = load_file(FOLDER / "reference.py").reference
CASES = load_file(FOLDER / "cases.py")
WIDTH, CONDITION, EPS = 24, 10, 1e-3
SIZES = {"q": 16, "k": 8, "v": 12}
VARIANTS = [dict(zip(STRUCTURE.variants, values, strict=True)) for values in product(*STRUCTURE.variants.values())]
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: "-".join(one.values()))


def readers(variant: dict[str, str]) -> str:
    """Return the projections that read the norm."""
    return "qkv" if variant["fanout"] == "qkv" else "q"


def given(variant: dict[str, str]) -> dict[str, Any]:
    """Return inputs, slots and axes of a variant: distinct numbers, no unit anywhere."""
    draw = torch.Generator().manual_seed(4)
    shapes: dict[str, tuple[int, ...]] = {"x": (1, 5, WIDTH), "cond": (1, CONDITION)}
    shapes |= {"w_cond": (CONDITION, 2 * WIDTH), "b_cond": (2 * WIDTH,)}
    for name in readers(variant):
        shapes[f"w_{name}"] = (WIDTH, SIZES[name])
        if variant["bias"] == "add":
            shapes[f"b_{name}"] = (SIZES[name],)
    tensors = {name: torch.randn(*shape, generator=draw, dtype=torch.float64) for name, shape in shapes.items()}
    return {**tensors, **variant, "eps": EPS}


def linear(at: dict[str, Any], name: str) -> nn.Linear:
    """Return a library layer with the tensors of a slot."""
    bias = at.get(f"b_{name}")
    layer = nn.Linear(*at[f"w_{name}"].shape, bias=bias is not None).double()
    layer.load_state_dict({"weight": at[f"w_{name}"].T, **({} if bias is None else {"bias": bias})})
    return layer


@each_variant
def test_reference_equals_library_modules(variant: dict[str, str]) -> None:
    at = given(variant)
    scale, shift = linear(at, "cond")(nn.SiLU()(at["cond"]))[:, None].split(WIDTH, -1)
    norm = nn.LayerNorm(WIDTH, eps=EPS, elementwise_affine=False)
    n = torch.addcmul(shift, norm(at["x"]), 1 + scale)
    wanted = (n, *(linear(at, name)(n) for name in readers(variant)))
    torch.testing.assert_close(REFERENCE(**at), wanted, rtol=1e-12, atol=1e-12)


def test_reference_equals_the_block_of_a_policy() -> None:
    dit = pytest.importorskip(
        "lerobot.policies.groot.action_head.cross_attention_dit", reason="NOT_SUPPORTED: lerobot is not installed"
    )
    block = dit.BasicTransformerBlock(WIDTH, 2, WIDTH // 2, norm_type="ada_norm", attention_bias=True)
    block = block.double().eval()
    x, cond = torch.randn(1, 5, WIDTH).double(), torch.randn(1, WIDTH).double()
    layers = {"cond": block.norm1.linear, **{name: getattr(block.attn1, f"to_{name}") for name in "qkv"}}
    slots = {f"w_{name}": layer.weight.T for name, layer in layers.items()}
    slots |= {f"b_{name}": layer.bias for name, layer in layers.items()}
    with torch.no_grad():
        n = block.norm1(x, cond)
        wanted = (n, block.attn1.to_q(n), block.attn1.to_k(n), block.attn1.to_v(n))
        found = REFERENCE(x=x, cond=cond, **slots, fanout="qkv", bias="add", eps=block.norm1.norm.eps)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@each_variant
def test_outputs_are_those_of_the_yaml(variant: dict[str, str]) -> None:
    wanted = [("n", WIDTH), *((name, SIZES[name]) for name in readers(variant))]
    found = [spec.name for spec in STRUCTURE.returned(variant)]
    assert [*zip(found, (y.shape[-1] for y in REFERENCE(**given(variant))), strict=True)] == wanted


@each_variant
def test_every_input_and_slot_matters(variant: dict[str, str]) -> None:
    at = given(variant)
    base = torch.cat(REFERENCE(**at), -1)
    for name in (name for name, value in at.items() if isinstance(value, Tensor)):
        assert not torch.equal(torch.cat(REFERENCE(**{**at, name: at[name] * 1.01}), -1), base), name


@each_variant
def test_near_miss_is_far_from_the_reference(variant: dict[str, str]) -> None:
    (miss,) = CASES.near_misses(variant)
    at = given(variant)
    missed = {**at, **{name: take(at[name]) for name, take in miss.slots.items()}}
    assert (REFERENCE(**missed)[0] - REFERENCE(**at)[0]).norm() > 0.1


@each_variant
def test_taps_decide_what_the_matmuls_read_and_not_what_the_norm_returns(variant: dict[str, str]) -> None:
    at, seen = given(variant), list[str]()

    def halve(point: str, value: Tensor) -> Tensor:
        seen.append(point)
        return value * 0.5 if point == "n" else value

    halved, plain = REFERENCE(**at, tap=halve), REFERENCE(**at)
    assert tuple(seen) == STRUCTURE.points
    assert torch.equal(halved[0], plain[0])
    assert not any(torch.allclose(a, b) for a, b in zip(halved[1:], plain[1:], strict=True))


@pytest.mark.parametrize("missing", ["w_k", "b_v"])
def test_missing_slot_of_the_variant_is_an_error(missing: str) -> None:
    at = given({"fanout": "qkv", "bias": "add"})
    del at[missing]
    with pytest.raises(ValueError, match="needs w_k and w_v"):
        REFERENCE(**at)
