"""Seats that take a condition beside their rows: drawn weights, cases, and the judge's word on a bound part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import BindSeat, Scales
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.lab.calls import Call
from pytest_frt.measure.metrics import seam_metrics
from pytest_frt.registry import Registry, load_impl, load_module
from pytest_frt.rules import seam
from pytest_frt.seat import kernels
from pytest_frt.spec.dims import shape_of

from .conftest import drawn, outputs

REGISTRY = Registry.load()
C, D, ROWS = 32, 48, (10, 64)
EPS = 1e-5
WIDTHS = {"C": C, "D": D, "Nq": 40, "Nk": 24, "Nv": 56}


@dataclass(frozen=True)
class Conditioned:
    """One structure whose inputs are ``x[..., D]`` and ``cond[1, C]``."""

    structure: str

    @property
    def variants(self) -> list[dict[str, str]]:
        """Every combination of the variants."""
        axes = REGISTRY.structures[self.structure].spec.variants
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

    @property
    def units(self) -> list[tuple[str, str]]:
        """Every impl with each of its schemes."""
        own = [(name, entry.impl) for name, entry in sorted(REGISTRY.impls.items())]
        return [(name, scheme) for name, one in own if one.structure == self.structure for scheme in one.schemes]

    def seat(self, scheme: str, variant: dict[str, str]) -> BindSeat:
        """Return a seat with drawn weights in the slots that the variant has."""
        dims = WIDTHS | ({"S": D * (3 if "gate" in variant["style"] else 2)} if "style" in variant else {})
        slots = enumerate(self._slots(variant, dims), start=1)
        weights = {name: drawn(shape, seed, role) for seed, (name, shape, role) in slots}
        return BindSeat(self.structure, scheme, variant, dims, weights, {"eps": EPS}, ROWS, "float32")

    def bound(self, name: str, scheme: str, variant: dict[str, str], **changes: Any) -> nn.Module:
        """Bind an impl, with some weights changed."""
        seat = self.seat(scheme, variant)
        seat = replace(seat, weights={**seat.weights, **changes})
        kernel: ModuleType = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
        part = load_impl(REGISTRY.impls[name]).bind(seat, Scales(), kernel)
        assert not isinstance(part, Refusal), part
        return cast("nn.Module", part)

    def fed(self, variant: dict[str, str]) -> dict[str, Call]:
        """Return normal rows and every case."""
        draw = torch.Generator().manual_seed(5)
        real = Call(torch.randn(64, D, generator=draw), (torch.randn(1, C, generator=draw),))
        cases = self._file("cases.py").cases({"C": C, "D": D}, ROWS, variant, seed=3, most_rows=64)
        return {"rows": real} | {case.name: Call(case.inputs["x"], (case.inputs["cond"],)) for case in cases}

    def faults(
        self, part: Callable[..., object], scheme: str, variant: dict[str, str], given: dict[str, Call]
    ) -> dict[str, str]:
        """Return case and output to the judge's word, for what does not hold."""
        reference, judged = self._file("reference.py").reference, load_module(REGISTRY.schemes[scheme].file).SCHEME
        slots = {slot.name: slot for slot in REGISTRY.structures[self.structure].spec.slots}
        found = {}
        exact, fake = dict[str, Tensor](), dict[str, Tensor]()
        for name, tensor in self.seat(scheme, variant).weights.items():
            rounded = judged.weight(tensor, slots[name].out_axis) if slots[name].role == "matmul" else tensor
            exact[name], fake[name] = tensor.double(), rounded.double()
        for case, call in given.items():
            x, cond = (tensor.double() for tensor in call.tensors)
            wide = [outputs(reference(x=x, cond=cond, **weights, **variant, eps=EPS)) for weights in (exact, fake)]
            for index, (got, *wanted) in enumerate(zip(outputs(part(*call.tensors)), *wide, strict=True)):
                metrics = seam_metrics(got, *wanted, seat="s", case=case, output=index, limits=judged.limits)
                if word := seam.fault(metrics, judged.limits):
                    found[f"{case}#{index}"] = word
        return found

    def _slots(self, variant: dict[str, str], dims: dict[str, int]) -> Iterator[tuple[str, tuple[int, ...], str]]:
        spec = REGISTRY.structures[self.structure].spec
        filled = {name for rule in spec.seams if rule.variant == variant for name in rule.slots}
        for slot in spec.slots:
            if not slot.optional or slot.name in filled:
                yield slot.name, shape_of(slot.shape, dims), slot.role

    def _file(self, name: str) -> ModuleType:
        return load_module(Path(REGISTRY.structures[self.structure].spec.folder) / name)
