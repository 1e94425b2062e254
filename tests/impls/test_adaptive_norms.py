"""Impls of ``adaln_producer`` hold both oracles; a table has the host's bits, and none for another condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import BindSeat, Scales
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.lab.calls import Call
from pytest_frt.measure.metrics import seam_metrics
from pytest_frt.registry import Registry, load_impl, load_module
from pytest_frt.rules import seam
from pytest_frt.seat import kernels

from .conftest import drawn, outputs

REGISTRY = Registry.load()
STRUCTURE = REGISTRY.structures["adaln_producer"]
IMPLS = {name: entry for name, entry in REGISTRY.impls.items() if entry.impl.structure == "adaln_producer"}
UNITS = [(name, scheme) for name, entry in sorted(IMPLS.items()) for scheme in entry.impl.schemes]
VARIANTS = [
    dict(zip(STRUCTURE.spec.variants, values, strict=True)) for values in product(*STRUCTURE.spec.variants.values())
]
C, D, ROWS = 32, 48, (10, 64)
TABLE_ROWS = 64

each_unit = pytest.mark.parametrize(("name", "scheme"), UNITS, ids=str)
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: "-".join(one.values()))


def seat_of(scheme: str, variant: dict[str, str]) -> BindSeat:
    """Return a seat with drawn weights."""
    width = D * (3 if "gate" in variant["style"] else 2)
    weights = {"w_style": drawn((C, width), 1, "matmul"), "b_style": drawn((width,), 2, "bias")}
    dims = {"C": C, "D": D, "S": width}
    return BindSeat("adaln_producer", scheme, variant, dims, weights, {"eps": 1e-5}, ROWS, "float32")


def bound(name: str, scheme: str, variant: dict[str, str], **changes: Any) -> nn.Module:
    """Bind an impl, with some weights changed."""
    seat = seat_of(scheme, variant)
    seat = replace(seat, weights={**seat.weights, **changes})
    kernel: ModuleType = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    part = load_impl(IMPLS[name]).bind(seat, Scales(), kernel)
    assert not isinstance(part, Refusal), part
    return cast("nn.Module", part)


def projected(part: nn.Module, cond: Tensor) -> Tensor:
    """Return what the projection of a bound part makes of a condition."""
    return cast("Tensor", cast("nn.Module", part.project)(cond))


def fed(variant: dict[str, str]) -> dict[str, Call]:
    """Return normal rows and every case."""
    draw = torch.Generator().manual_seed(5)
    real = Call(torch.randn(64, D, generator=draw), (torch.randn(1, C, generator=draw),))
    cases = load_module(Path(STRUCTURE.folder) / "cases.py").cases(
        {"C": C, "D": D}, ROWS, variant, seed=3, most_rows=64
    )
    return {"rows": real} | {case.name: Call(case.inputs["x"], (case.inputs["cond"],)) for case in cases}


def faults(part: Callable[..., object], scheme: str, variant: dict[str, str], given: dict[str, Call]) -> dict[str, str]:
    """Return case and output to the judge's word, for what does not hold."""
    reference = load_module(Path(STRUCTURE.folder) / "reference.py").reference
    judged = load_module(REGISTRY.schemes[scheme].file).SCHEME
    seat, found = seat_of(scheme, variant), {}
    exact = {name: tensor.double() for name, tensor in seat.weights.items()}
    fake = {**exact, "w_style": judged.weight(seat.weights["w_style"], 1).double()}
    for case, call in given.items():
        x, cond = (tensor.double() for tensor in call.tensors)
        wide = [outputs(reference(x=x, cond=cond, **weights, **variant, eps=1e-5)) for weights in (exact, fake)]
        for index, (got, *wanted) in enumerate(zip(outputs(part(*call.tensors)), *wide, strict=True)):
            metrics = seam_metrics(got, *wanted, seat="s", case=case, output=index, limits=judged.limits)
            if word := seam.fault(metrics, judged.limits):
                found[f"{case}#{index}"] = word
    return found


@each_unit
@each_variant
@torch.no_grad()
def test_impl_holds_both_oracles(name: str, scheme: str, variant: dict[str, str]) -> None:
    assert faults(bound(name, scheme, variant), scheme, variant, fed(variant)) == {}


def exchanged(tensor: Tensor) -> Tensor:
    """Exchange the first two pieces of D along the last axis."""
    scale, shift, *gate = tensor.split(D, -1)
    return torch.cat((shift, scale, *gate), -1)


@each_unit
@pytest.mark.parametrize(
    ("slot", "change"),
    [("w_style", exchanged), ("b_style", exchanged), ("b_style", torch.zeros_like), ("w_style", lambda w: w * 1.01)],
    ids=["shift_for_scale", "bias_exchanged", "bias_dropped", "gain"],
)
@torch.no_grad()
def test_sabotage_is_refused(name: str, scheme: str, slot: str, change: Callable[[Tensor], Tensor]) -> None:
    variant = VARIANTS[0]
    part = bound(name, scheme, variant, **{slot: change(seat_of(scheme, variant).weights[slot])})
    assert faults(part, scheme, variant, {"rows": fed(variant)["rows"]})


def stale(part: nn.Module) -> Callable[..., object]:
    """Return a part that keeps the first condition's style: the fault a table must not have."""
    first: list[Tensor] = []

    def run(x: Tensor, cond: Tensor) -> object:
        first.append(cond)
        return part(x, first[0])

    return run


@each_unit
@torch.no_grad()
def test_style_of_another_condition_is_refused(name: str, scheme: str) -> None:
    variant = VARIANTS[0]
    found = faults(stale(bound(name, scheme, variant)), scheme, variant, fed(variant))
    assert {"cond_zero#0", "cond_outlier#1"} <= set(found)


@torch.no_grad()
def test_table_gives_the_bits_of_a_plain_projection_however_full_it_is() -> None:
    part, weights = bound("adaln_producer/torch_table", "none", VARIANTS[0]), seat_of("none", VARIANTS[0]).weights
    for turn in range(2 * TABLE_ROWS):
        cond = torch.randn(1, C, generator=torch.Generator().manual_seed(turn % (TABLE_ROWS + 9)))
        wanted = torch.nn.functional.linear(cond, weights["w_style"].T.contiguous(), weights["b_style"])
        assert torch.equal(projected(part, cond), wanted), turn


@torch.no_grad()
def test_writing_into_an_answer_does_not_reach_the_table() -> None:
    part = bound("adaln_producer/torch_table", "none", VARIANTS[0])
    x, cond = torch.ones(10, D), torch.ones(1, C)
    y, gate = part(x, cond)
    kept = gate.clone()
    gate.zero_()
    y.zero_()
    assert torch.equal(part(x, cond)[1], kept)
