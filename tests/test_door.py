"""The single-seat door hands out a checked part, or refuses with the number and the limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN

from pytest_frt import GateRefused, UsageFault, door, frt_get
from pytest_frt.contracts.pooled import ChannelMetrics
from pytest_frt.registry import Registry
from pytest_frt.spec.entries import Provider
from tests.rules.sound import LIMITS, POOLED

STRUCTURE = "linear_proj"
IMPL = """
import torch
from torch import nn
from pytest_frt.sdk import Impl, Refusal
IMPL = Impl(name="{name}", structure="linear_proj", version=1, schemes=("none",), kernel="pytest-frt/frt-cpu",
            rows={{"none": (1, 8)}})
class Bound(nn.Module):
    def __init__(self, seat):
        super().__init__()
        self.w, self.b = seat.weights["w"], seat.weights.get("b", 0.0)
    def forward(self, x):
        y = x @ self.w + self.b
        return {answer}
def bind(seat, scales, kernel):
    return {bind}
"""


@pytest.fixture
def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(16, 24).eval()


@pytest.fixture
def samples() -> list[Tensor]:
    return [torch.randn(4, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # noqa: ANN201
    """Return a function that makes the registry hold these impls and no other."""

    def write(**answers: str) -> None:
        folder = tmp_path / "impls" / STRUCTURE
        folder.mkdir(parents=True)
        for name, answer in answers.items():
            bind = answer if answer.startswith("Refusal") else "Bound(seat)"
            (folder / f"{name}.py").write_text(IMPL.format(name=name, answer=answer, bind=bind))
        provider = Provider("impls", "", "acme 1", tmp_path / "impls")
        held = replace(Registry.load(), impls=Registry.of([provider]).impls)
        monkeypatch.setattr(Registry, "load", classmethod(lambda _cls: held))

    return write


def test_checked_part_serves_and_runs_the_host_outside_its_form(module: nn.Module, samples: list[Tensor]) -> None:
    part = frt_get(STRUCTURE).bind(module, calibration=samples, impl="torch_packed", scheme="w16a32")
    with torch.no_grad():
        assert torch.allclose(part(samples[0]), module(samples[0]), atol=1e-2)
        assert not torch.equal(part(samples[0]), module(samples[0]))
        assert torch.equal(part(torch.ones(99, 16)), module(torch.ones(99, 16)))
    assert part.weight is module.weight


SPOILS = {
    "gain": ("1.01 * y", r"parity: gain on real, output 0: slope 0\.0[01]"),
    "zeros": ("0 * y", "parity: zeros on real"),
    "nan": ("y / (y - y)", "parity: nan on real"),
    "seen_only": ("y if x.abs().sum() < 60 * len(x) else 0 * y", r"parity: \w+ on \w+"),
    "shape": ("y[..., :3]", "parity: shape on real"),
    "refuses": ("Refusal('bind', 'smoke', 'not today')", "smoke: not today"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_bad_part_is_refused_with_the_number(plant, module, samples, spoil) -> None:  # noqa: ANN001
    answer, words = SPOILS[spoil]
    plant(bad=answer)
    with pytest.raises(GateRefused, match=rf"{STRUCTURE}: nothing passes\. bad in none: {words}"):
        frt_get(STRUCTURE).bind(module, calibration=samples)


def test_one_bad_channel_is_refused_with_the_number() -> None:
    limits: Any = SimpleNamespace(limits=LIMITS)
    door._hold_pooled(POOLED, limits)
    with pytest.raises(GateRefused, match=r"parity: channel over all rows, output 0: channel 0\.0\d+ .* at channel_5"):
        door._hold_pooled(replace(POOLED, worst=(ChannelMetrics(5, 0.05, 0.001),)), limits)


def test_first_that_passes_is_taken(plant, module, samples) -> None:  # noqa: ANN001
    plant(a_bad="2 * y", b_good="y", c_good="y")
    part = frt_get(STRUCTURE).bind(module, calibration=samples)
    with torch.no_grad():
        assert torch.allclose(part(samples[0]), module(samples[0]))
    with pytest.raises(GateRefused, match="a_bad in none: parity"):
        frt_get(STRUCTURE).bind(module, calibration=samples, impl="a_bad")


@pytest.mark.parametrize(
    ("change", "options", "error", "words"),
    [
        (nn.Module.train, {}, GateRefused, "training mode"),
        (nn.Module.eval, {"calibration": []}, GateRefused, "no calibration input"),
        (nn.Module.eval, {"calibration": [torch.ones(0, 16)]}, GateRefused, "0 calibration rows"),
        (nn.Module.eval, {"impl": "torch_paked"}, UsageFault, "no impls entry"),
        (nn.Module.eval, {"scheme": "w16"}, UsageFault, "no schemes entry"),
        (nn.Module.eval, {"impl": "torch_packed", "scheme": "fp8_static"}, GateRefused, "nothing passes"),
    ],
    ids=["training", "no_sample", "no_row", "impl_typo", "scheme_typo", "scheme_of_another"],
)
def test_unusable_request_is_refused(module, samples, change, options, error, words) -> None:  # noqa: ANN001
    change(module)
    with pytest.raises(error, match=words):
        frt_get(STRUCTURE).bind(module, **{"calibration": samples} | options)


def test_module_without_the_parts_is_refused(samples: list[Tensor]) -> None:
    with pytest.raises(GateRefused, match="no single-module seat of decoder_ffn"):
        frt_get("decoder_ffn").bind(nn.Linear(16, 16).eval(), calibration=samples)


class Gated(nn.Module):
    def __init__(self, act: object) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(16, 32, bias=False) for _ in "gu")
        self.down_proj, self.act_fn = nn.Linear(32, 16, bias=False), act

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def siblings() -> nn.Module:
    return nn.ModuleDict({f"{name}_proj": nn.Linear(16, 16) for name in "qkv"})


NO_SEATS = {
    "activation_nobody_knows": ("decoder_ffn", lambda: Gated(ACT2FN["gelu_10"]), "seat: activation act_fn is not told"),
    "activation_of_others": (
        "decoder_ffn",
        lambda: Gated(nn.ReLU()),
        "seat: activation act_fn is relu, decoder_ffn has",
    ),
    "no_second_layer": ("vision_ffn", lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU()), r"seat\.0: no structure"),
    "several_modules": ("qkv_pack", siblings, r"it holds seat\.q_proj\+k_proj\+v_proj, to be served on a host"),
    "seats_inside": ("linear_proj", siblings, r"it holds seat\.q_proj, seat\.k_proj, seat\.v_proj"),
}
SEATS = {
    "decoder_ffn": lambda: Gated(nn.SiLU()),
    "vision_ffn": lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
}


@pytest.mark.parametrize(("structure", "build", "words"), NO_SEATS.values(), ids=NO_SEATS)
def test_module_that_is_no_seat_is_refused_with_the_reason(structure, build, words, samples) -> None:  # noqa: ANN001
    with pytest.raises(GateRefused, match=f"no single-module seat of {structure}: .*{words}"):
        frt_get(structure).bind(build().eval(), calibration=samples)


@pytest.mark.parametrize("structure", SEATS)
def test_module_with_the_parts_is_served(structure: str, samples: list[Tensor]) -> None:
    part = frt_get(structure).bind(SEATS[structure]().eval(), calibration=samples, impl="torch_packed", scheme="none")
    assert part.frt_seat == "seat"


GIVEN = {
    "number": (3, "is int, "),
    "array": (np.zeros((4, 16), np.float32), "is ndarray, "),
    "one_less": (torch.ones(4, 15), r"is float32 \[4, 15\], "),
    "one_more": (torch.ones(4, 17), r"is float32 \[4, 17\], "),
    "no_axis": (torch.tensor(1.0), r"is float32 \[\], "),
    "other_dtype": (torch.ones(4, 16, dtype=torch.float64), r"is float64 \[4, 16\], "),
}


@pytest.mark.parametrize(("given", "words"), GIVEN.values(), ids=GIVEN)
def test_sample_that_the_module_cannot_be_given_is_named(module, samples, given, words) -> None:  # noqa: ANN001
    said = rf"calibration input 4 {words}the module takes float32 \[\.\.\., 16\]"
    with pytest.raises(GateRefused, match=said):
        frt_get(STRUCTURE).bind(module, calibration=[*samples, given])


@pytest.mark.parametrize("shape", [(16,), (2, 3, 16)], ids=str)
def test_sample_may_have_any_axes_before_the_last(module, samples, shape) -> None:  # noqa: ANN001
    part = frt_get(STRUCTURE).bind(module, calibration=[*samples, torch.ones(shape)], impl="torch_packed")
    assert part.weight is module.weight


def test_stage_pipeline_is_told_from_a_structure() -> None:
    with pytest.raises(UsageFault, match="vla_tick_pipeline is a stage pipeline") as raised:
        frt_get("vla_tick_pipeline")
    assert "frt conform" in raised.value.hint


def test_structure_typo_names_the_nearest() -> None:
    with pytest.raises(UsageFault) as raised:
        frt_get("linear_prj")
    assert "did you mean 'linear_proj'" in raised.value.hint


def test_most_exact_scheme_is_tried_first() -> None:
    tried = [scheme for _, scheme in frt_get("linear_proj")._candidates(None, None)]
    assert tried[0] in {"none", "w16a32"}
    assert tried.index("w8a16_decode") > tried.index("w16a32")
    assert tried.index("w4a16_decode") > tried.index("none")


def test_structure_of_several_inputs_is_refused(samples: list[Tensor]) -> None:
    with pytest.raises(GateRefused, match="adaln_producer takes 2 inputs"):
        frt_get("adaln_producer").bind(nn.Linear(8, 8).eval(), calibration=samples)
