"""The calling convention round-trips: the reference passes as a part, in every variant of every structure."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import Structure
from pytest_frt.lab import calls
from pytest_frt.lab.calls import Call
from pytest_frt.lab.oracle import Answer, SeatOracle, calls_of, compare
from pytest_frt.lab.seam_run import SeamRun
from pytest_frt.registry import Registry, load_module
from pytest_frt.rules import seam
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.spec.dims import evaluate, shape_of, symbols

REGISTRY = Registry.load()
SCHEME: Scheme = load_module(REGISTRY.schemes["none"].file).SCHEME
BAND, SIZE, REAL_ROWS = (1, 8), 24, 20
EVERY = [
    pytest.param(name, dict(zip(entry.spec.variants, values, strict=True)), id="-".join((name, *values)))
    for name, entry in sorted(REGISTRY.structures.items())
    for values in product(*entry.spec.variants.values())
]


def sizes(structure: Structure, variant: dict[str, str]) -> dict[str, int]:
    """Return a size for every symbol, each another one; pieces of a projected style are as wide as the rows."""
    shapes = [slot.shape for slot in structure.slots] + [one.shape for one in (*structure.inputs, *structure.outputs)]
    free = {one for shape in shapes for text in shape for one in symbols(text)} - {"M", "S"}
    found = {symbol: SIZE + 6 * index for index, symbol in enumerate(sorted(free))}
    return found | ({"S": len(variant["style"].split("_")) * found["D"]} if "style" in variant else {})


def seat_on(structure: Structure, variant: dict[str, str]) -> tuple[nn.Module, SeatFacts]:
    """Return a host that holds a tensor per slot, and the seat over them."""
    dims, host, draw = sizes(structure, variant), nn.Module(), torch.Generator().manual_seed(1)
    for slot in structure.slots:
        value = torch.randn(*shape_of(slot.shape, dims), generator=draw) / 5
        host.register_parameter(slot.name, nn.Parameter(value + (1.2 if slot.role == "norm" else 0)))
    slots = {slot.name: SlotRef(slot.name) for slot in structure.slots}
    constants = {"eps": 1e-5} if any((rule.constants or {}) for rule in structure.seams) else {}
    return host, SeatFacts(structure.name, ModuleSeat("part"), variant, dims, slots, constants, "float32", {})


class Part(nn.Module):
    """The reference over a seat's tensors."""

    def __init__(self, reference: ModuleType, names: list[str], keywords: dict[str, Any]) -> None:
        super().__init__()
        self._run, self._names, self._keywords = reference.reference, names, keywords

    def forward(self, *inputs: Tensor) -> Any:
        return self._run(**dict(zip(self._names, inputs, strict=True)), **self._keywords)


def real(structure: Structure, facts: SeatFacts) -> list[Call]:
    """Return rows under two sets of the other inputs, under one where there are none."""
    draw = torch.Generator().manual_seed(2)
    widths = [evaluate(tensor.shape[-1], facts.dims) for tensor in structure.inputs]
    return [
        Call(
            torch.randn(REAL_ROWS, widths[0], generator=draw),
            tuple(torch.randn(1, w, generator=draw) for w in widths[1:]),
        )
        for _ in range(2 if len(widths) > 1 else 1)
    ]


@pytest.mark.parametrize(("name", "variant"), EVERY)
@torch.no_grad()
def test_reference_passes_as_a_part(name: str, variant: dict[str, str]) -> None:
    structure = REGISTRY.structures[name].spec
    host, facts = seat_on(structure, variant)
    names = [tensor.name for tensor in structure.inputs]
    weights = {slot: tensor.detach() for slot, tensor in host.named_parameters()}
    part = Part(load_module(Path(structure.folder) / "reference.py"), names, {**weights, **variant, **facts.constants})
    width, *sides = (evaluate(tensor.shape[-1], facts.dims) for tensor in structure.inputs)
    returned = structure.returned(variant)
    outputs = tuple(evaluate(tensor.shape[-1], facts.dims) for tensor in returned)
    per_call = tuple(tensor.per_call for tensor in returned)
    bound = BoundSeat(facts, part, width, outputs, BAND, "reference", "none", tuple(sides), per_call)
    cases = load_module(Path(structure.folder) / "cases.py")
    fed, given = real(structure, facts), dict(calls.case_calls(cases, facts, names, BAND, 3))

    run = SeamRun()
    run.part(bound, fed, given.items(), BAND)
    assert (run.mutated, run.poison, run.aliased, run.shapes, run.misplaced) == ([], [], [], [], [])

    oracle = SeatOracle(host, facts, structure, SCHEME, Scales())
    answers = [Answer("real", _taken(run, "real/"), [one for group in fed for one in calls.parts(group, BAND)])]
    answers += [Answer(case, _taken(run, f"case/{case}/"), [call]) for case, call in given.items()]
    assert len(given) > 20
    assert {answer.case: len(answer.got) for answer in answers} == dict.fromkeys(["real", *given], len(returned))
    found = compare(oracle, SCHEME, facts.id, answers, oracle.fake_quantised(calls_of(answers)))
    assert [(one.case, word) for one in found if (word := seam.fault(one, SCHEME.limits))] == []


def _taken(run: SeamRun, prefix: str) -> tuple[Tensor, ...]:
    return tuple(tensor for key, tensor in sorted(run.outputs.items()) if key.startswith(prefix))
