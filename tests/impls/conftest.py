"""Seats of every structure with drawn weights, and the two oracles of a seat, as the judge applies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import BindSeat, Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.measure.metrics import seam_metrics
from pytest_frt.registry import ImplEntry, Registry, load_impl, load_module
from pytest_frt.rules import seam
from pytest_frt.seat import kernels

REGISTRY = Registry.load()
KERNELS = ("pytest-frt/frt-cpu", "pytest-frt/frt-scaled")
OWN = {
    name: entry
    for name, entry in REGISTRY.impls.items()
    if entry.impl.kernel in KERNELS and len(REGISTRY.structures[entry.impl.structure].spec.inputs) == 1
}
UNITS = [(name, scheme) for name, entry in sorted(OWN.items()) for scheme in entry.impl.schemes]
DIMS = {
    "decoder_ffn": {"D": 64, "F": 160},
    "vision_ffn": {"D": 64, "F": 160},
    "linear_proj": {"K": 64, "N": 48},
    "cadence_static": {"K": 64, "N": 48},
    "qkv_pack": {"K": 64, "Nq": 64, "Nk": 32, "Nv": 48},
    "norm_fused": {"D": 64},
    "patch_projection": {"K": 96, "N": 48},
}
VARIANTS = {
    "decoder_ffn": {"activation": "gelu_tanh", "norm": "none", "residual": "none"},
    "vision_ffn": {"activation": "gelu_erf", "norm": "post", "residual": "add"},
    "linear_proj": {"bias": "add"},
    "cadence_static": {"bias": "add"},
    "qkv_pack": {"bias": "add"},
    "norm_fused": {"norm": "layer"},
    "patch_projection": {"bias": "add"},
}
FORMAT_MAX = 448.0


def drawn(shape: tuple[int, ...], seed: int, role: str) -> Tensor:
    """Return distinct, non-unit parameters: matmul slots keep the variance of their input."""
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values * max(shape) ** -0.5 if role == "matmul" else 0.5 + 0.3 * values


@dataclass(frozen=True, slots=True)
class Unit:
    """One impl in one scheme on one seat."""

    entry: ImplEntry
    module: ModuleType
    scheme: Scheme
    seat: BindSeat
    scales: Scales
    kernel: ModuleType

    def bind(self, seat: BindSeat | None = None, scales: Scales | None = None) -> nn.Module:
        """Bind, on another seat or with other scales if given."""
        part = self.module.bind(seat or self.seat, scales or self.scales, self.kernel)
        assert not isinstance(part, Refusal), part
        return cast("nn.Module", part)

    def refusal(self, **changes: object) -> Refusal:
        """Return the refusal of a seat with some fields changed."""
        answer = self.module.bind(replace(self.seat, **changes), self.scales, self.kernel)  # type: ignore[arg-type]
        assert isinstance(answer, Refusal), answer
        return answer

    def oracles(self) -> tuple[Callable[[Tensor], tuple[Tensor, ...]], Callable[[Tensor], tuple[Tensor, ...]]]:
        """Return the reference and the fake-quantised reference in float64."""
        entry = REGISTRY.structures[self.entry.impl.structure]
        reference = load_module(Path(entry.folder) / "reference.py").reference
        slots = {slot.name: slot for slot in entry.spec.slots}
        keywords = {**self.seat.variant, **self.seat.constants}
        exact = {name: tensor.double() for name, tensor in self.seat.weights.items()}
        fake = {
            name: self.scheme.weight(tensor, slots[name].out_axis) if slots[name].role == "matmul" else tensor
            for name, tensor in exact.items()
        }

        def tap(point: str, value: Tensor) -> Tensor:
            return self.scheme.activation(value, self.scales.by_point.get(point))

        return (
            lambda x: outputs(reference(x=x.double(), **exact, **keywords)),
            lambda x: outputs(reference(x=x.double(), **fake, **keywords, tap=tap)),
        )

    def faults(self, part: Callable[[Tensor], object], inputs: Mapping[str, Tensor]) -> dict[str, str]:
        """Return case to the judge's word, for the cases that do not hold."""
        exact, fake = self.oracles()
        limits = self.scheme.limits
        found = {}
        for case, x in inputs.items():
            got = outputs(part(x))
            for index, (c, r, f) in enumerate(zip(got, exact(x), fake(x), strict=True)):
                metrics = seam_metrics(c, r, f, seat="seat", case=case, output=index, limits=limits)
                if word := seam.fault(metrics, limits):
                    found[f"{case}#{index}"] = f"{word} {seam.numbers(metrics, limits)}"
        return found

    def cases(self) -> dict[str, Tensor]:
        """Return the structure's own cases."""
        module = load_module(Path(REGISTRY.structures[self.entry.impl.structure].folder) / "cases.py")
        seat = self.seat
        cases = module.cases(dims=seat.dims, rows=seat.rows, variant=seat.variant, seed=3, most_rows=16)
        return {case.name: case.inputs["x"] for case in cases}

    def rows(self, count: int = 64) -> Tensor:
        """Return normal rows, as many as a judge draws."""
        width = self.seat.dims["D" if "D" in self.seat.dims else "K"]
        return torch.randn(count, width, generator=torch.Generator().manual_seed(9))


def outputs(value: object) -> tuple[Tensor, ...]:
    """Return one output or several as a tuple."""
    return (value,) if isinstance(value, Tensor) else tuple(cast("tuple[Tensor, ...]", value))


def seat_of(
    structure: str, scheme: str, rows: tuple[int, int], variant: Mapping[str, str], dims: Mapping[str, int]
) -> BindSeat:
    """Return a seat with drawn weights."""
    weights = {}
    for seed, slot in enumerate(REGISTRY.structures[structure].spec.slots):
        unused = (variant.get("bias") == "none" and slot.role == "bias") or (
            variant.get("norm", "none") == "none" and slot.role == "norm"
        )
        if not unused:
            weights[slot.name] = drawn(tuple(dims[symbol] for symbol in slot.shape), seed, slot.role)
    constants = {"eps": 1e-5} if variant.get("norm") in ("post", "layer") else {}
    return BindSeat(structure, scheme, variant, dims, weights, constants, rows, "float32")


def calibrated(unit: Unit) -> Scales:
    """Return amax scales of the unit's points over normal rows."""
    found: dict[str, float] = {}

    def tap(point: str, value: Tensor) -> Tensor:
        found[point] = torch.tensor(value.abs().max().item() / FORMAT_MAX).item()
        return value

    entry = REGISTRY.structures[unit.entry.impl.structure]
    reference = load_module(Path(entry.folder) / "reference.py").reference
    weights = {name: tensor.double() for name, tensor in unit.seat.weights.items()}
    reference(x=unit.rows(256).double(), **weights, **unit.seat.variant, **unit.seat.constants, tap=tap)
    return Scales(found)


@cache
def loaded(repo: str) -> ModuleType:
    """Return one of our kernels, loaded."""
    return kernels.load_build(kernels.resolve(repo, backend="cpu"))


@pytest.fixture(scope="session")
def kernel() -> ModuleType:
    """Return the kernel that most impls run over."""
    return loaded(KERNELS[0])


@pytest.fixture(params=UNITS, ids="-".join)
def unit(request: pytest.FixtureRequest, kernel: ModuleType) -> Unit:
    """Return every impl in every scheme in turn."""
    name, scheme_name = request.param
    return make_unit(name, scheme_name, kernel)


def make_unit(name: str, scheme_name: str, kernel: ModuleType, variant: Mapping[str, str] | None = None) -> Unit:
    """Return one impl in one scheme on a drawn seat, calibrated if the scheme needs it.

    Args:
        name: ``structure/impl``.
        scheme_name: Scheme.
        kernel: Kernel of impls that run over the first of ``KERNELS``; others bring their own.
        variant: Variant of the seat; None for the structure's usual one.
    """
    entry = OWN[name]
    kernel = kernel if entry.impl.kernel == KERNELS[0] else loaded(entry.impl.kernel)
    scheme = cast("Scheme", load_module(REGISTRY.schemes[scheme_name].file).SCHEME)
    structure = entry.impl.structure
    rows, axes = entry.impl.rows[scheme_name], variant or VARIANTS[structure]
    seat = seat_of(structure, scheme_name, rows, axes, DIMS[structure])
    made = Unit(entry, load_impl(entry), scheme, seat, Scales(), kernel)
    return replace(made, scales=calibrated(made)) if scheme.statistic != "none" else made
