"""Activations are told apart by what they do: near twins, clipped and stateful ones are never taken for a label."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import ACT2FN

from pytest_frt.seat.activations import CANDIDATES, Identified, Unidentified, identify

LIMIT = 1e-9

KNOWN = {
    "gelu_tanh": [nn.GELU("tanh"), ACT2FN["gelu_pytorch_tanh"], ACT2FN["gelu_new"], ACT2FN["gelu_fast"]],
    "gelu_erf": [nn.GELU(), ACT2FN["gelu"], F.gelu, lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))],
    "silu": [nn.SiLU(), ACT2FN["silu"], nn.SiLU(inplace=True), lambda x: x / (1 + torch.exp(-x))],
    "quick_gelu": [ACT2FN["quick_gelu"], lambda x: x * torch.sigmoid(1.702 * x)],
    "relu": [nn.ReLU(), nn.ReLU(inplace=True), ACT2FN["relu"]],
    "relu_squared": [ACT2FN["relu2"]],
    "hardswish": [nn.Hardswish()],
    "identity": [nn.Identity(), nn.Dropout().eval(), ACT2FN["linear"]],
}


@pytest.mark.parametrize(
    ("label", "module"),
    [(label, one) for label, many in KNOWN.items() for one in many],
    ids=lambda value: str(value)[:24],
)
def test_activation_is_told_by_behaviour(label: str, module: Callable[[Tensor], Tensor]) -> None:
    assert identify(module, LIMIT) == Identified(label)


STRANGERS = {
    "clipped_gelu": ACT2FN["gelu_10"],
    "relu6": nn.ReLU6(),
    "scaled_by_a_thousandth": lambda x: F.silu(x) * 1.001,
    "gelu_with_a_rounded_constant": lambda x: 0.5 * x * (1 + torch.tanh(0.7979 * (x + 0.044715 * x**3))),
    "silu_beyond_a_threshold": lambda x: torch.where(x > 5000, x * 2, F.silu(x)),
    "nan_for_large_values": lambda x: torch.where(x > 100, torch.nan, F.silu(x)),
    "noise": lambda x: F.silu(x) + torch.rand_like(x),
    "dropout_in_training": nn.Dropout(0.5).train(),
    "softmax": nn.Softmax(-1),
    "sparse_top_half": lambda x: torch.where(x > x.median(-1, keepdim=True).values, F.silu(x), 0),
    "with_parameters": nn.PReLU(),
    "halves_the_width": nn.GLU(),
    "float32_only": lambda x: F.silu(x.float()),
    "fails": lambda x: x @ torch.ones(3, 3),
    "a_string": "silu",
}


@pytest.mark.parametrize("module", STRANGERS.values(), ids=STRANGERS)
def test_anything_else_is_refused_with_a_reason(module: object) -> None:
    found = identify(module, LIMIT)
    assert isinstance(found, Unidentified)
    assert found.reason


@pytest.mark.parametrize("label", CANDIDATES)
def test_no_candidate_passes_for_another(label: str) -> None:
    assert identify(CANDIDATES[label], LIMIT) == Identified(label)
    others = [other for other in CANDIDATES if other != label]
    x = torch.linspace(-12, 12, 4097, dtype=torch.float64)
    assert min(float((CANDIDATES[label](x) - CANDIDATES[other](x)).abs().max()) for other in others) > 1e5 * LIMIT


def test_probe_is_not_written_to() -> None:
    assert identify(functools.partial(F.relu, inplace=True), LIMIT) == Identified("relu")
