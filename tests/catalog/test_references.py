"""Each reference equals an independent formulation, made of library modules, in every declared variant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, Gemma3TextConfig, Qwen3Config
from transformers.models.bert.modeling_bert import BertIntermediate, BertOutput
from transformers.models.gemma3.modeling_gemma3 import Gemma3MLP, Gemma3RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm

from pytest_frt.contracts.structure import Structure
from pytest_frt.lab import seam
from pytest_frt.spec.load import load_structure

from .conftest import CATALOG, EVERYTHING, NAMES

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


def variants(name: str) -> list[Any]:
    axes = load_structure(CATALOG / name).variants
    combined = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return [pytest.param(name, one, id="-".join((name, *one.values()))) for one in combined]


EVERY = [variant for name in NAMES for variant in variants(name)]


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """Return a layer from a weight in ``[out, in]``."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    layer.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
    return layer


def normed(norm: nn.Module, **state: Tensor) -> nn.Module:
    norm.double().load_state_dict(state)
    return norm


def gated(slots: dict[str, Tensor], variant: dict[str, str]) -> Callable[[Tensor], Tensor]:
    width, hidden = slots["w_gate"].shape
    size = {"hidden_size": width, "intermediate_size": hidden}
    mlp = Gemma3MLP(Gemma3TextConfig(**size)) if variant["activation"] == "gelu_tanh" else Qwen3MLP(Qwen3Config(**size))
    state = {f"{name}_proj.weight": slots[f"w_{name}"].T for name in ("gate", "up", "down")}
    mlp.double().load_state_dict(state)
    added = {"none": None, "offset": 1.0, "direct": 0.0}[variant["norm"]]
    rms = nn.RMSNorm(width, eps=1e-6)
    norm = nn.Identity() if added is None else normed(rms, weight=slots["w_norm"] + added)
    return lambda x: mlp(norm(x)) + (x if variant["residual"] == "add" else 0)


def two_layer(slots: dict[str, Tensor], variant: dict[str, str]) -> Callable[[Tensor], Tensor]:
    gelu = nn.GELU("tanh" if variant["activation"] == "gelu_tanh" else "none")
    ffn = nn.Sequential(linear(slots["w_fc1"], slots["b_fc1"]), gelu, linear(slots["w_fc2"], slots["b_fc2"]))
    affine = {"weight": slots["w_norm"], "bias": slots["b_norm"]}
    norm = normed(nn.LayerNorm(slots["w_fc1"].shape[1], eps=1e-6), **affine)
    pre = norm if variant["norm"] == "pre" else nn.Identity()
    post = norm if variant["norm"] == "post" else nn.Identity()
    return lambda x: post(ffn(pre(x)) + (x if variant["residual"] == "add" else 0))


def projection(slots: dict[str, Tensor], variant: dict[str, str]) -> Callable[[Tensor], Tensor]:
    return linear(slots["w"].T, slots["b"] if variant["bias"] == "add" else None)


def siblings(slots: dict[str, Tensor], variant: dict[str, str]) -> Callable[[Tensor], Tensor]:
    packed = torch.cat([slots[f"w_{name}"].T for name in "qkv"])
    bias = torch.cat([slots[f"b_{name}"] for name in "qkv"]) if variant["bias"] == "add" else None
    sizes = [slots[f"w_{name}"].shape[1] for name in "qkv"]
    return lambda x: linear(packed, bias)(x).split(sizes, dim=-1)


def layer_norm(slots: dict[str, Tensor], _variant: dict[str, str]) -> Callable[[Tensor], Tensor]:
    return normed(nn.LayerNorm(slots["w"].shape[0], eps=1e-6), weight=slots["w"], bias=slots["b"])


def clip_convolution(slots: dict[str, Tensor], variant: dict[str, str]) -> Callable[[Tensor], Tensor]:
    """Return a convolution over the patches as clips of two frames, three channels and 2 x 2 pixels."""
    add, size = variant["bias"] == "add", (2, 2, 2)
    layer = nn.Conv3d(3, slots["w"].shape[0], size, stride=size, bias=add, dtype=slots["w"].dtype)
    layer.load_state_dict({"weight": slots["w"].view(-1, 3, *size)} | ({"bias": slots["b"]} if add else {}))
    return lambda x: layer(x.reshape(-1, 3, *size)).view(*x.shape[:-1], -1)


INDEPENDENT = {
    "decoder_ffn": gated,
    "vision_ffn": two_layer,
    "linear_proj": projection,
    "cadence_static": projection,
    "qkv_pack": siblings,
    "norm_fused": layer_norm,
    "patch_projection": clip_convolution,
}


@pytest.mark.parametrize(("structure", "variant"), EVERY, indirect=["structure"])
def test_reference_equals_library_modules(
    structure: Structure, variant: dict[str, str], reference: Callable[..., Any], slots: dict[str, Tensor], x: Tensor
) -> None:
    torch.testing.assert_close(
        reference(x=x, **slots, **variant), INDEPENDENT[structure.name](slots, variant)(x), **TIGHT
    )


@pytest.mark.parametrize(("structure", "variant"), EVERY, indirect=["structure"])
def test_every_slot_and_axis_matters(
    structure: Structure, variant: dict[str, str], reference: Callable[..., Any], slots: dict[str, Tensor], x: Tensor
) -> None:
    def run(**changed: Tensor | str) -> Tensor:
        out = reference(x=x, **{**slots, **variant, **changed})
        return torch.cat(out, -1) if isinstance(out, tuple) else out

    base = run()
    unread = {name for name in slots if torch.equal(run(**{name: slots[name] + 0.01}), base)}
    expected = {
        slot.name for slot in structure.slots if slot.optional and "none" in (variant.get("bias"), variant.get("norm"))
    }
    assert unread == expected
    for axis, values in structure.variants.items():
        assert all(not torch.equal(run(**{axis: value}), base) for value in values if value != variant[axis]), axis


@pytest.mark.parametrize("structure", ["vision_ffn"], indirect=True)
def test_post_norm_pair_equals_bert(slots: dict[str, Tensor], reference: Callable[..., Any], x: Tensor) -> None:
    hidden, width = slots["w_fc1"].shape
    config = BertConfig(hidden_size=width, intermediate_size=hidden, num_attention_heads=1, layer_norm_eps=1e-3)
    first, second = BertIntermediate(config).double(), BertOutput(config).double().eval()
    first.load_state_dict({"dense.weight": slots["w_fc1"], "dense.bias": slots["b_fc1"]})
    norm = {"LayerNorm.weight": slots["w_norm"], "LayerNorm.bias": slots["b_norm"]}
    second.load_state_dict({"dense.weight": slots["w_fc2"], "dense.bias": slots["b_fc2"], **norm})
    got = reference(x=x, **slots, activation="gelu_erf", norm="post", residual="add", eps=1e-3)
    torch.testing.assert_close(got, second(first(x), x), **TIGHT)


@pytest.mark.parametrize("structure", ["decoder_ffn"], indirect=True)
@pytest.mark.parametrize(
    ("norm", "library"), [("offset", Gemma3RMSNorm), ("direct", Qwen3RMSNorm)], ids=["offset", "direct"]
)
def test_norm_equals_the_library_that_uses_it(
    norm: str, library: type[nn.Module], slots: dict[str, Tensor], reference: Callable[..., Any], x: Tensor
) -> None:
    module = library(x.shape[-1], eps=1e-3)
    module.load_state_dict({"weight": slots["w_norm"]})
    weights = {name: value.float() for name, value in slots.items()}
    seen: dict[str, Tensor] = {}
    reference(x=x.float(), **weights, norm=norm, eps=1e-3, tap=seen.setdefault)
    torch.testing.assert_close(seen["x_after_norm"], module(x.float()))


@pytest.mark.parametrize("structure", EVERYTHING, indirect=True)
def test_keywords_are_those_of_the_yaml(structure: Structure, reference: Callable[..., Any]) -> None:
    words = inspect.signature(reference).parameters
    assert all(word.kind is word.KEYWORD_ONLY for word in words.values())
    named = (
        {tensor.name for tensor in structure.inputs} | {slot.name for slot in structure.slots} | set(structure.variants)
    )
    constants = {name for rule in structure.seams for name in rule.constants or {}}
    assert named | constants <= set(words) <= named | constants | {"tap", "eps"}
    assert {axis: words[axis].default for axis in structure.variants} == {
        axis: values[0] for axis, values in structure.variants.items()
    }
    assert {slot.name for slot in structure.slots if slot.optional} == {
        name for name, word in words.items() if word.default is None
    }


@pytest.mark.parametrize(("structure", "variant"), EVERY, indirect=["structure"])
def test_tap_meets_every_point_once_and_decides_the_value(
    structure: Structure, variant: dict[str, str], reference: Callable[..., Any], slots: dict[str, Tensor], x: Tensor
) -> None:
    seen: list[str] = []

    def note(point: str, value: Tensor) -> Tensor:
        seen.append(point)
        return value

    plain = reference(x=x, **slots, **variant)
    torch.testing.assert_close(reference(x=x, **slots, **variant, tap=note), plain, rtol=0, atol=0)
    assert tuple(seen) == structure.points
    for point in structure.points:
        doubled = reference(x=x, **slots, **variant, tap=lambda name, v, point=point: v * 2 if name == point else v)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(doubled, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("structure", "variant"), EVERY, indirect=["structure"])
def test_dtype_is_kept(
    structure: Structure,
    variant: dict[str, str],
    dtype: torch.dtype,
    reference: Callable[..., Any],
    slots: dict[str, Tensor],
    x: Tensor,
) -> None:
    out = reference(x=x.to(dtype), **{name: value.to(dtype) for name, value in slots.items()}, **variant)
    outputs = out if isinstance(out, tuple) else (out,)
    assert len(outputs) == len(structure.outputs)
    assert {y.dtype for y in outputs} == {dtype}
    assert all(y.shape[:-1] == x.shape[:-1] for y in outputs)


@pytest.mark.parametrize(
    ("structure", "spoil", "error"),
    [
        ("decoder_ffn", {"activation": "relu"}, KeyError),
        ("decoder_ffn", {"norm": "offset", "w_norm": None}, ValueError),
        ("vision_ffn", {"activation": "silu"}, KeyError),
        ("linear_proj", {"bias": "add", "b": None}, ValueError),
        ("cadence_static", {"bias": "add", "b": None}, ValueError),
        ("qkv_pack", {"bias": "add", "b_k": None}, ValueError),
        ("norm_fused", {"norm": "rms"}, KeyError),
        ("patch_projection", {"bias": "add", "b": None}, ValueError),
    ],
    ids=[
        "gated_relu",
        "norm_without_weight",
        "vision_silu",
        "bias_without_b",
        "kept_without_b",
        "one_bias_missing",
        "other_norm",
        "patches_without_b",
    ],
    indirect=["structure"],
)
def test_what_it_cannot_express_raises(
    spoil: dict[str, Any], error: type[Exception], reference: Callable[..., Any], slots: dict[str, Tensor], x: Tensor
) -> None:
    with pytest.raises(error):
        reference(x=x, **{**slots, **spoil})


ROWWISE = [one for one in EVERY if load_structure(CATALOG / one.values[0]).rowwise]


@pytest.mark.parametrize(("structure", "variant"), ROWWISE, indirect=["structure"])
def test_row_of_a_rowwise_structure_depends_on_its_own_row_alone(
    variant: dict[str, str], reference: Callable[..., Any], slots: dict[str, Tensor], x: Tensor
) -> None:
    rows = x.reshape(-1, x.shape[-1])
    calls = [rows[:1], rows[1:3], rows[:0], rows[3:].unsqueeze(0)]

    def call(x: Tensor) -> tuple[Tensor, ...]:
        return seam.as_tuple(reference(x=x, **slots, **variant))

    for got, alone in zip(seam.row_by_row(call, calls), map(call, calls), strict=True):
        for stacked, single in zip(got, alone, strict=True):
            torch.testing.assert_close(stacked, single, **TIGHT)
