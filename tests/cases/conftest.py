"""A seat of each structure on a small host, judged as a run does: a worker's seam run, both oracles, the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from pytest_frt.contracts.evidence import ParityEvidence
from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.gates import parity
from pytest_frt.lab import seam
from pytest_frt.lab.near import pooled
from pytest_frt.lab.oracle import Answer, SeatOracle, calls_of, compare
from pytest_frt.lab.seam_run import REAL, SeamRun
from pytest_frt.registry import Registry, load_module
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.weights import slot_tensors

REGISTRY = Registry.load()
DECODE = (1, 8)
Forward = Callable[[Tensor], Any]
DIMS = {
    "decoder_ffn": {"D": 63, "F": 130},  # odd: no vector load divides them
    "vision_ffn": {"D": 63, "F": 130},
    "linear_proj": {"K": 63, "N": 45},
    "cadence_static": {"K": 63, "N": 45},
    "qkv_pack": {"K": 63, "Nq": 60, "Nk": 20, "Nv": 28},
    "norm_fused": {"D": 63},
    "patch_projection": {"K": 54, "N": 45},  # three channels of two frames of 3 x 3 pixels
}
VARIANTS = {
    "decoder_ffn": {"activation": "gelu_tanh", "norm": "offset", "residual": "none"},
    "vision_ffn": {"activation": "gelu_erf", "norm": "post", "residual": "add"},
    "linear_proj": {"bias": "add"},
    "cadence_static": {"bias": "add"},
    "qkv_pack": {"bias": "add"},
    "norm_fused": {"norm": "layer"},
    "patch_projection": {"bias": "add"},
}
SPREAD = {"matmul": 1.0, "bias": 0.5, "norm": 0.1}


@dataclass(frozen=True, slots=True)
class Place:
    """One seat with drawn weights.

    Attributes:
        facts: The seat.
        model: The module that holds its tensors.
        scheme: What it is judged by.
        scales: Static scales, where the scheme has them.
    """

    facts: SeatFacts
    model: nn.Module
    scheme: Scheme
    scales: Scales = field(default_factory=Scales)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The slots as a bind gets them."""
        return slot_tensors(self.model, self.facts)

    @property
    def reference(self) -> Callable[..., Any]:
        """The structure's reference."""
        folder = Path(REGISTRY.structures[self.facts.structure].folder)
        return cast("Callable[..., Any]", load_module(folder / "reference.py").reference)

    def sound(self, **changes: object) -> Forward:
        """Return the reference in the scheme's weights, in float32, with slots, axes or constants changed."""
        keywords = {**self.facts.variant, **self.facts.constants, **self.weights, **changes}
        return lambda x: self.reference(x=x, **keywords)

    def judged(self, forward: Forward, *, band: tuple[int, int] = DECODE, rows: int = 36) -> Refusal | None:
        """Run a part at the seam as a worker does, compare it as the oracle does, and return what the gate says."""
        structure = REGISTRY.structures[self.facts.structure].spec
        x, cases = drawn(self, rows), cases_of(self, band)
        run = seam_run(self, forward, band=band, rows=rows)
        with torch.no_grad():
            oracle = SeatOracle(self.model, self.facts, structure, self.scheme, self.scales)
            calls = [x[start:stop] for start, stop in seam.splits(rows, band)]
            asked = {f"{REAL}/": (REAL, calls), **{f"case/{name}/": (name, [one]) for name, one in cases.items()}}
            answers = [Answer(name, got, fed) for key, (name, fed) in asked.items() if (got := _taken(run, key))]
            fakes = oracle.fake_quantised(calls_of(answers))
            metrics = tuple(compare(oracle, self.scheme, self.facts.id, answers, fakes))
            together = tuple(pooled(oracle, cases_module(self), self.facts, answers, fakes))
        terms = parity.Terms({self.facts.id: parity.SeatTerms(self.scheme.limits)}, "values", "random")
        refused = parity.judge(
            ParityEvidence(metrics, (), pooled=together), run.evidence(run.conduct), terms
        ).seats.refused
        return refused[0] if refused else None

    def said(self, forward: Forward, **keywords: Any) -> str:
        """Return the word of the refusal, empty when there is none."""
        refusal = self.judged(forward, **keywords)
        return refusal.reason if refusal else ""


def drawn(at: Place, rows: int) -> Tensor:
    """Return the real rows ``[rows, K]`` of a seat."""
    (x,) = REGISTRY.structures[at.facts.structure].spec.inputs
    return torch.randn(rows, at.facts.dims[x.shape[-1]], generator=torch.Generator().manual_seed(9))


def cases_of(at: Place, band: tuple[int, int]) -> dict[str, Tensor]:
    """Return the structure's cases."""
    return dict(seam.case_inputs(cases_module(at), at.facts, band, 3))


def cases_module(at: Place) -> ModuleType:
    """Return ``cases.py`` of the structure."""
    return load_module(Path(REGISTRY.structures[at.facts.structure].folder) / "cases.py")


@torch.no_grad()
def seam_run(at: Place, forward: Forward, *, band: tuple[int, int] = DECODE, rows: int = 36) -> SeamRun:
    """Run a part at the seam as a worker does."""
    x, structure = drawn(at, rows), REGISTRY.structures[at.facts.structure].spec
    outputs = tuple(at.facts.dims[one.shape[-1]] for one in structure.outputs)
    module = nn.Module()
    module.forward = forward
    bound = BoundSeat(at.facts, module, x.shape[-1], outputs, band, "planted", at.scheme.name)
    run = SeamRun()
    run.part(bound, [x], cases_of(at, band).items(), band)
    return run


def _taken(run: SeamRun, prefix: str) -> tuple[Tensor, ...]:
    return tuple(tensor for key, tensor in sorted(run.outputs.items()) if key.startswith(prefix))


def place(
    structure: str, *, scheme: str = "none", variant: Mapping[str, str] | None = None, eps: float = 1e-3
) -> Place:
    """Return a seat with weights that are distinct and non-unit; norms have weights near 0, and eps is large."""
    dims, chosen = DIMS[structure], {**VARIANTS[structure], **(variant or {})}
    model = nn.Module()
    slots = {}
    for seed, slot in enumerate(REGISTRY.structures[structure].spec.slots):
        if (chosen.get("bias") == "none" and slot.role == "bias") or (
            chosen.get("norm") == "none" and "norm" in slot.name
        ):
            continue
        shape = tuple(dims[symbol] for symbol in slot.shape)
        values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * SPREAD[slot.role]
        values = values * max(shape) ** -0.5 if slot.role == "matmul" else values
        model.register_parameter(slot.name, nn.Parameter(values, requires_grad=False))
        slots[slot.name] = SlotRef(slot.name)
    constants = {"eps": eps} if chosen.get("norm", "none") != "none" else {}
    facts = SeatFacts(structure, ModuleSeat("seat"), chosen, dims, slots, constants, "float32", {})
    found = cast("Scheme", load_module(Path(REGISTRY.schemes[scheme].file)).SCHEME)
    return Place(facts, model, found)


def scaled(at: Place, by: float) -> Place:
    """Return the seat with one scale for every point."""
    points = REGISTRY.structures[at.facts.structure].spec.points
    return replace(at, scales=Scales(dict.fromkeys(points, by)))
