"""Every declared limit of every impl, at its edge: refused just beyond with number and limit, admitted just inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_frt.impls._shared.seat_envelope import outside_envelope

from pytest_frt.contracts.impl import BindSeat, Impl, Scales
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.registry import Registry
from pytest_frt.seat.bind import device_faults, envelope_faults

REGISTRY = Registry.load()
CELLS = [(name, scheme) for name, entry in sorted(REGISTRY.impls.items()) for scheme in entry.impl.schemes]
FREE_SIZE = 64
KINDS = ("cpu", "cuda", "meta")
DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn")


@dataclass(frozen=True)
class Asked:
    """What an impl is asked to take."""

    structure: str
    scheme: str
    dtype: str
    variant: dict[str, str]
    dims: dict[str, int]
    rows: tuple[int, int]
    scales: dict[str, float]

    def refusals(self, impl: Impl) -> list[Refusal]:
        """Return what the two that hold a seat against a declaration say: before the impl is called, and in it."""
        facts = SeatFacts(self.structure, ModuleSeat("s"), self.variant, self.dims, {}, {}, self.dtype, {})
        seat = BindSeat(self.structure, self.scheme, self.variant, self.dims, {}, {}, self.rows, self.dtype)
        scales = Scales(self.scales)
        before = next(envelope_faults(impl, facts, scheme=self.scheme, scales=scales, rows=self.rows), None)
        return [one for one in (before, outside_envelope(impl, seat, scales)) if one is not None]


def smallest(impl: Impl, symbol: str) -> int:
    """Return the smallest size that an impl takes."""
    low, divisor = impl.dims.get(symbol, (FREE_SIZE, 0))[0], impl.multiples.get(symbol, 1)
    return -(-low // divisor) * divisor


def asked(name: str, scheme: str) -> Asked:
    """Return a seat inside every limit, of the smallest sizes."""
    impl = REGISTRY.impls[name].impl
    axes = REGISTRY.structures[impl.structure].spec.variants
    variant = {axis: impl.variants.get(axis, values)[0] for axis, values in axes.items()}
    dims = {symbol: smallest(impl, symbol) for symbol in {*impl.dims, *impl.multiples}}
    scales = dict.fromkeys(impl.points.get(scheme, ()), 0.5)
    return Asked(impl.structure, scheme, impl.dtypes[0], variant, dims, impl.rows[scheme], scales)


@dataclass(frozen=True)
class Edge:
    """A limit: the last seat inside it, the first beyond, and what a refusal has to name."""

    inside: Asked
    beyond: Asked
    words: tuple[object, ...]


def sizes(impl: Impl, inside: Asked) -> Iterator[Edge]:
    for symbol, (low, high) in impl.dims.items():
        step = impl.multiples.get(symbol, 1)
        top = high // step * step
        for end, last, beyond in ((low, smallest(impl, symbol), low - step), (high, top, top + step)):
            taken, over = ({**inside.dims, symbol: size} for size in (last, beyond))
            yield Edge(replace(inside, dims=taken), replace(inside, dims=over), (symbol, beyond, end, impl.name))


def multiples(impl: Impl, inside: Asked) -> Iterator[Edge]:
    for symbol, divisor in impl.multiples.items():
        for size in (inside.dims[symbol] + 1, inside.dims[symbol] + divisor - 1):
            yield Edge(inside, replace(inside, dims={**inside.dims, symbol: size}), (symbol, size, divisor))


def rows(impl: Impl, inside: Asked) -> Iterator[Edge]:
    low, high = impl.rows[inside.scheme]
    for beyond in ((low - 1, high), (low, high + 1)):
        yield Edge(inside, replace(inside, rows=beyond), (*beyond, low, high, impl.name))


def variants(impl: Impl, inside: Asked) -> Iterator[Edge]:
    for axis, taken in impl.variants.items():
        for value in {*REGISTRY.structures[impl.structure].spec.variants[axis], "odd"} - set(taken):
            beyond = replace(inside, variant={**inside.variant, axis: value})
            yield Edge(inside, beyond, (axis, value, *taken, impl.name))


def names(impl: Impl, inside: Asked) -> Iterator[Edge]:
    for dtype in set(DTYPES) - set(impl.dtypes):
        yield Edge(inside, replace(inside, dtype=dtype), (dtype, *impl.dtypes, impl.name))
    yield Edge(inside, replace(inside, structure="other"), ("other", impl.structure, impl.name))
    yield Edge(inside, replace(inside, scheme="other"), ("other", *impl.schemes, impl.name))


def scales(_impl: Impl, inside: Asked) -> Iterator[Edge]:
    for point in inside.scales:
        others = {name: value for name, value in inside.scales.items() if name != point}
        yield Edge(inside, replace(inside, scales=others), (point,))
        for bad in (0.0, -1e-8, math.nan, math.inf):
            taken = replace(inside, scales={**others, point: 1e-8})
            yield Edge(taken, replace(inside, scales={**others, point: bad}), (point, bad))


LIMITS: dict[str, Callable[[Impl, Asked], Iterator[Edge]]] = {
    of.__name__: of for of in (sizes, multiples, rows, variants, names, scales)
}
EDGES = {
    f"{name}-{scheme}-{of}": (name, found)
    for name, scheme in CELLS
    for of, draw in LIMITS.items()
    if (found := list(draw(REGISTRY.impls[name].impl, asked(name, scheme))))
}


@pytest.mark.parametrize(("name", "edges"), EDGES.values(), ids=EDGES)
def test_what_lies_inside_a_limit_is_admitted_and_what_lies_beyond_is_named(name: str, edges: list[Edge]) -> None:
    impl = REGISTRY.impls[name].impl
    for edge in edges:
        assert edge.inside.refusals(impl) == []
        before, within = (refusal.detail for refusal in edge.beyond.refusals(impl))
        assert [word for word in map(str, edge.words) if word not in before or word not in within] == []


SIZED = {name: edges for name, edges in EDGES.items() if name.endswith(("-sizes", "-multiples"))}


@pytest.mark.parametrize(("name", "edges"), SIZED.values(), ids=SIZED)
def test_size_beyond_its_limit_is_measured(name: str, edges: list[Edge]) -> None:
    refusals = [refusal for edge in edges for refusal in edge.beyond.refusals(REGISTRY.impls[name].impl)]
    assert {refusal.reason for refusal in refusals} == {"envelope"}
    for measured in (one for refusal in refusals for one in refusal.measured):
        over = measured.value > measured.required if measured.op == "<=" else measured.value < measured.required
        assert over, measured
    assert all(len(refusal.measured) == 1 for refusal in refusals)


@pytest.mark.parametrize("name", sorted(REGISTRY.impls))
def test_weights_elsewhere_are_refused_by_the_kind_of_their_device(name: str) -> None:
    impl = REGISTRY.impls[name].impl
    facts = SeatFacts(impl.structure, ModuleSeat("s"), {}, {}, {}, {}, "float32", {})
    for kind in KINDS:
        weight: Any = SimpleNamespace(device=SimpleNamespace(type=kind))
        said = [(one.reason, one.detail) for one in device_faults(impl, facts, {"w": weight})]
        words = f"its tensors are on {kind}, {impl.name} runs on {', '.join(impl.devices)}"
        assert said == ([] if kind in impl.devices else [("device", words)])
