"""Cases C18 to C22 and C33: parts that never run, seats that vanish, machines and kernels that lack something."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.evidence import CallFacts, CandidateEvidence, ParityEvidence
from pytest_frt.contracts.impl import BindSeat, Scales
from pytest_frt.contracts.record import CalibrationFacts, FileDigest
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.errors import KernelUnavailable, SwapRefused
from pytest_frt.gates import ledger, parity
from pytest_frt.registry import load_impl
from pytest_frt.rules.thresholds import CALIBRATION_SAMPLES
from pytest_frt.seat import kernels, swap
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.discover import discover

from .conftest import REGISTRY, place

WIDTH = 64


class Mlp(nn.Module):
    """A gated block; ``gate`` names its first projection, ``direct`` runs it past its module."""

    def __init__(self, *, gate: str = "gate_proj", direct: bool = False) -> None:
        super().__init__()
        self.add_module(gate, nn.Linear(WIDTH, 160, bias=False))
        self.up_proj = nn.Linear(WIDTH, 160, bias=False)
        self.down_proj = nn.Linear(160, WIDTH, bias=False)
        self.act_fn = nn.SiLU()
        self.gate, self.direct = gate, direct

    def forward(self, x: Tensor) -> Tensor:
        h = self.act_fn(self.get_submodule(self.gate)(x)) * self.up_proj(x)
        return F.linear(h, self.down_proj.weight) if self.direct else self.down_proj(h)


class Host(nn.Module):
    def __init__(self, **keywords: Any) -> None:
        super().__init__()
        self.mlp = Mlp(**keywords)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(x)


def seat_at(path: str) -> BoundSeat:
    module = nn.Module()
    module.forward = lambda x: x
    slots = {"w": SlotRef(f"{path}.weight" if path else "weight", transpose=True)}
    facts = SeatFacts("linear_proj", ModuleSeat(path), {"bias": "none"}, {}, slots, {}, "float32", {})
    width = 160 if path else WIDTH
    return BoundSeat(facts, module, width, (WIDTH,), (1, 8), "planted", "none")


@pytest.mark.case("C18")
@pytest.mark.parametrize(("direct", "reason"), [(True, "never_called"), (False, "")], ids=["past_the_module", "called"])
def test_c18_attached_and_without_effect(*, direct: bool, reason: str) -> None:
    model = Host(direct=direct).eval()
    bound = seat_at("mlp.down_proj")
    bound.module.forward = model.mlp.down_proj.forward
    calls = [CallFacts("mlp.down_proj", "decode", 3, {"4": 3}, "float32")]
    with swap.attach(model, [bound]) as attachment, torch.no_grad():
        for _ in range(3):
            model(torch.ones(4, WIDTH))
        entries = attachment.ledger.entries()
    verdict = ledger.judge(entries, calls, seats=["mlp.down_proj"], bands={"mlp.down_proj": (1, 8)}, phase="decode")
    assert [refusal.reason for refusal in verdict.refused] == ([reason] if reason else [])


@pytest.mark.case("C18")
def test_c18_some_calls_fall_back_without_a_word() -> None:
    model = Host().eval()
    bound = seat_at("mlp.down_proj")
    bound.module.forward = model.mlp.down_proj.forward
    calls = [CallFacts("mlp.down_proj", "decode", 3, {"4": 3}, "float32")]
    with swap.attach(model, [bound]) as attachment, torch.no_grad():
        for _ in range(2):
            model(torch.ones(4, WIDTH))
        entries = attachment.ledger.entries()
    verdict = ledger.judge(entries, calls, seats=["mlp.down_proj"], bands={"mlp.down_proj": (1, 8)}, phase="decode")
    assert [refusal.reason for refusal in verdict.refused] == ["served"]


def found(model: nn.Module) -> tuple[list[str], list[str]]:
    structures = [entry.spec for entry in REGISTRY.structures.values()]
    spec: Any = SimpleNamespace(structures=(), exclude={}, name="toy")
    seats, rest = discover(model, structures, spec)
    return sorted(f"{seat.structure} {seat.id}" for seat in seats), sorted(one.path for one in rest)


@pytest.mark.case("C19")
def test_c19_another_version_of_the_host_renames_a_layer() -> None:
    torch.manual_seed(0)
    seats, rest = found(Host().eval())
    assert "decoder_ffn mlp" in seats
    renamed, left = found(Host(gate="gating").eval())
    assert "decoder_ffn mlp" not in renamed
    names = {name.partition(" ")[2] for name in renamed} | set(left)
    assert {"mlp.gating", "mlp.up_proj", "mlp.down_proj"} <= names  # each is accounted for, by name
    assert rest == []


@pytest.mark.case("C19")
def test_c19_the_root_module_is_refused_aloud() -> None:
    with pytest.raises(SwapRefused, match="the model itself"):
        swap.attach(nn.Linear(WIDTH, WIDTH).eval(), [seat_at("")])


IMPLS = sorted(name for name, entry in REGISTRY.impls.items() if entry.impl.kernel == "pytest-frt/frt-cpu")


def layers_of(name: str) -> dict[str, str]:
    layers: dict[str, str] = load_impl(REGISTRY.impls[name]).LAYERS
    return layers


@pytest.mark.case("C33")
@pytest.mark.parametrize("name", IMPLS)
def test_c33_every_layer_that_an_impl_calls_exists_in_its_kernel(name: str) -> None:
    kernel = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    layers = layers_of(name)
    assert layers.keys() == set(REGISTRY.impls[name].impl.schemes)
    assert [layer for layer in layers.values() if not callable(getattr(kernel, layer, None))] == []


@pytest.mark.case("C33")
def test_c33_a_rewrite_that_drops_a_layer_is_seen_without_running_it() -> None:
    kernel = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    rewritten = SimpleNamespace(**{name: getattr(kernel, name) for name in dir(kernel) if name != "fp16_linear"})
    layers = layers_of("linear_proj/torch_packed")
    assert [layer for layer in layers.values() if not hasattr(rewritten, layer)] == ["fp16_linear"]


@pytest.mark.case("C20")
def test_c20_what_a_machine_is_said_to_run_is_asked_of_its_kernel() -> None:
    at = place("linear_proj")
    poor = ModuleType("poor")
    poor.unsupported = lambda layer: f"{layer} needs another machine"  # type: ignore[attr-defined]
    seat = BindSeat("linear_proj", "w16a32", {"bias": "add"}, at.facts.dims, at.weights, {}, (1, 8), "float32")
    with pytest.raises(KernelUnavailable, match="another machine"):
        load_impl(REGISTRY.impls["linear_proj/torch_packed"]).bind(seat, Scales(), poor)


@pytest.mark.case("C22")
@pytest.mark.parametrize(
    ("samples", "reason"), [(1, "calibration"), (int(CALIBRATION_SAMPLES.value), "unjudged")], ids=["one", "enough"]
)
def test_c22_scales_of_one_frame(samples: int, reason: str) -> None:
    facts = CalibrationFacts(FileDigest("s", "0"), "amax", samples, "1", "2")
    candidate = CandidateEvidence(("a",), (), {}, (), facts, (), (), (), (), (), (), 0.0)
    terms = parity.Terms({"a": parity.SeatTerms(place("linear_proj").scheme.limits)}, "values", "random")
    (refusal,) = parity.judge(ParityEvidence((), (), scale_drift={"a": 0.0}), candidate, terms).seats.refused
    assert refusal.reason == reason


def test_every_impl_has_its_file() -> None:
    assert all(Path(REGISTRY.impls[name].file).exists() for name in IMPLS)
