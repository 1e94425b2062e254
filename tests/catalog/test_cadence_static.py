"""``cadence_static``: the reference against arithmetic and against keys and values of library layers; its cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import Blip2QFormerConfig
from transformers.models.blip_2.modeling_blip_2 import Blip2QFormerMultiHeadAttention

from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file

FOLDER = Path(__file__).parents[2] / "catalog" / "cadence_static"
STRUCTURE = load_structure(FOLDER)
REFERENCE = load_file(FOLDER / "reference.py").reference
WIDTH, CONDITION, ROWS = 32, 24, 7
LINE = ["met_first", "met_again", "one_bit_changed", "rows_reversed", "all_negated", "met_once_more"]


def projected(layer: nn.Linear, x: Tensor) -> Tensor:
    """Return what the reference makes of ``x`` with the tensors of a library's layer."""
    bias = {"bias": "none"} if layer.bias is None else {"bias": "add", "b": layer.bias}
    return REFERENCE(x=x, w=layer.weight.T, **bias)


def condition() -> Tensor:
    return torch.randn(1, ROWS, CONDITION, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def test_reference_equals_plain_arithmetic() -> None:
    draw = np.random.default_rng(5)
    x, w, b = (draw.normal(size=shape) for shape in ((3, 4), (4, 2), (2,)))
    wanted = [[sum(x[m, k] * w[k, n] for k in range(4)) + b[n] for n in range(2)] for m in range(3)]
    tensors = {name: torch.from_numpy(value) for name, value in (("x", x), ("w", w), ("b", b))}
    np.testing.assert_allclose(REFERENCE(**tensors, bias="add").numpy(), wanted, rtol=1e-14)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@torch.no_grad()
def test_reference_equals_keys_and_values_of_a_diffusion_block(*, biased: bool) -> None:
    attention = pytest.importorskip("diffusers.models.attention_processor", reason="NOT_SUPPORTED: no diffusers")
    layer = attention.Attention(WIDTH, cross_attention_dim=CONDITION, heads=2, dim_head=8, bias=biased).double()
    seen: list[Tensor] = []
    hooks = [part.register_forward_hook(lambda *of: seen.append(of[2])) for part in (layer.to_k, layer.to_v)]
    layer(torch.randn(1, 5, WIDTH, dtype=torch.float64), encoder_hidden_states=condition())
    assert len(hooks) == len(seen)
    for part, found in zip((layer.to_k, layer.to_v), seen, strict=True):
        torch.testing.assert_close(projected(part, condition()), found, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_reference_equals_keys_and_values_of_a_query_transformer() -> None:
    config = Blip2QFormerConfig(hidden_size=WIDTH, encoder_hidden_size=CONDITION, num_attention_heads=2)
    layer = Blip2QFormerMultiHeadAttention(config, is_cross_attention=True).double()
    seen: list[Tensor] = []
    for part in (layer.key, layer.value):
        part.register_forward_hook(lambda *of: seen.append(of[2]))
    layer(torch.randn(1, 5, WIDTH, dtype=torch.float64), encoder_hidden_states=condition())
    for part, found in zip((layer.key, layer.value), seen, strict=True):
        torch.testing.assert_close(projected(part, condition()), found, rtol=1e-12, atol=1e-12)


def inputs() -> dict[str, Tensor]:
    cases = load_file(FOLDER / "cases.py").cases({"K": 16, "N": 8}, (1, 64), {"bias": "none"}, seed=1)
    return {case.name: case.inputs["x"] for case in cases}


def test_cases_end_with_inputs_of_one_shape_that_follow_each_other() -> None:
    found = inputs()
    assert list(found)[-len(LINE) :] == LINE
    assert {"rows_0", "rows_65", "transposed"} <= set(found)
    assert len({found[name].shape for name in LINE}) == 1


def test_one_bit_is_all_that_changes() -> None:
    first, other = (inputs()[name].view(torch.int32) for name in ("met_first", "one_bit_changed"))
    (at,) = (first != other).flatten().nonzero().flatten()
    assert int(first.flatten()[at] ^ other.flatten()[at]) == -(2**31)


@pytest.mark.parametrize("again", ["met_again", "met_once_more"])
def test_inputs_met_before_have_memory_of_their_own(again: str) -> None:
    found = inputs()
    assert torch.equal(found[again], found["met_first"])
    assert found[again].data_ptr() != found["met_first"].data_ptr()
