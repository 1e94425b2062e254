"""Bug history, seams: other activations, other dtypes, residues of other calls, and metrics over other lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.measure.metrics import host_metrics
from pytest_frt.rules.bands import judge_samples

from .conftest import REGISTRY, Forward, Place, place

LINEAR = place("linear_proj")
SOUND, OUT = LINEAR.sound(), LINEAR.facts.dims["N"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu_erf": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "hardswish": F.hardswish,
}


def with_activation(at: Place, act: Callable[[Tensor], Tensor]) -> Forward:
    """Compute a block without norm and residual, in the scheme's weights and activations."""
    slots = {slot.name: slot for slot in REGISTRY.structures[at.facts.structure].spec.slots}
    w = {
        name: at.scheme.weight(value, slots[name].out_axis) if slots[name].role == "matmul" else value
        for name, value in at.weights.items()
    }

    def tap(x: Tensor) -> Tensor:
        return at.scheme.activation(x, None)

    if at.facts.structure == "decoder_ffn":
        return lambda x: tap(act(tap(x) @ w["w_gate"]) * (tap(x) @ w["w_up"])) @ w["w_down"]
    return lambda x: tap(act(tap(x) @ w["w_fc1"].T + w["b_fc1"])) @ w["w_fc2"].T + w["b_fc2"]


@pytest.mark.parametrize(
    ("structure", "own", "scheme"),
    [
        ("decoder_ffn", "silu", "none"),
        ("decoder_ffn", "gelu_tanh", "w8a8_dynamic"),
        ("vision_ffn", "gelu_erf", "none"),
        ("vision_ffn", "gelu_erf", "w8a8_dynamic"),
    ],
)
def test_every_activation_but_the_hosts_own_is_refused(structure: str, own: str, scheme: str) -> None:
    at = place(structure, scheme=scheme, variant={"activation": own, "norm": "none", "residual": "none"})
    passed = [name for name, act in ACTIVATIONS.items() if at.said(with_activation(at, act)) == ""]
    assert passed == [own]


def in_dtype(sound: Callable[[Tensor], Any], dtype: torch.dtype) -> Callable[[Tensor], Any]:
    def planted(x: Tensor) -> Any:
        value = sound(x)
        return tuple(one.to(dtype) for one in value) if isinstance(value, tuple) else value.to(dtype)

    return planted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=["narrower", "wider"])
@pytest.mark.parametrize("structure", ["linear_proj", "decoder_ffn", "vision_ffn", "qkv_pack"])
def test_output_in_another_dtype_is_refused(structure: str, dtype: torch.dtype) -> None:
    at = place(structure)
    refusal = at.judged(in_dtype(at.sound(), dtype))
    assert refusal is not None
    assert refusal.reason == "shape"
    assert str(dtype) in refusal.detail


class Slots:
    """Works in one buffer that holds the rows of earlier, longer calls; ``clear`` says whether it forgets them."""

    def __init__(self, *, clear: bool) -> None:
        self.clear, self.used, self.room = clear, 0, torch.zeros(4096, LINEAR.facts.dims["K"])

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, -2)
        self.used = len(flat) if self.clear else max(self.used, len(flat))
        self.room[: len(flat)] = flat
        held = self.room[: self.used]
        faint = 1e-3 * torch.zeros(()) if self.clear or len(held) == len(flat) else 1e-3 * held[len(flat) :].mean(0)
        return SOUND(flat + faint).view(*x.shape[:-1], OUT)


def test_residue_of_a_longer_call_in_a_shorter_one_is_refused() -> None:
    assert LINEAR.said(Slots(clear=False)) in {"stale", "nondeterministic"}
    assert LINEAR.said(Slots(clear=True)) == ""


class AddsToItsOwn:
    """Adds into a buffer of its own that it should have emptied."""

    def __init__(self, *, empty: bool) -> None:
        self.empty, self.sums = empty, dict[torch.Size, Tensor]()

    def __call__(self, x: Tensor) -> Tensor:
        y = SOUND(x)
        held = self.sums.setdefault(y.shape, torch.zeros_like(y))
        if self.empty:
            held.zero_()
        return held.add_(y).clone()


def test_sum_that_grows_with_every_call_is_refused() -> None:
    assert LINEAR.said(AddsToItsOwn(empty=False)) == "nondeterministic"
    assert LINEAR.said(AddsToItsOwn(empty=True)) == ""


def logits(length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * length + seed)
    return 4 * torch.randn(length, 64, generator=generator)


def offset_per_position(out: Tensor) -> Tensor:
    return out + 40 * torch.arange(len(out))[:, None] / len(out)  # softmax does not see it


def wraps_at_64(out: Tensor) -> Tensor:
    return torch.cat((out[:64], out[: max(len(out) - 64, 0)]))[: len(out)]


def passes(change: Callable[[Tensor], Tensor], kind: str, length: int) -> bool:
    pairs = [(logits(length, index), index) for index in range(12)]
    verdict = judge_samples(kind, [host_metrics(change(out), out, kind, index) for out, index in pairs])
    assert isinstance(verdict, Pass | Refusal)
    return isinstance(verdict, Pass)


@pytest.mark.parametrize("length", [15, 64, 120])
def test_metric_of_the_output_kind_holds_at_every_length(length: int) -> None:
    assert passes(lambda out: out.bfloat16().float(), "distribution", length)
    assert passes(wraps_at_64, "distribution", length) is (length <= 64)
    assert not passes(offset_per_position, "values", length)
