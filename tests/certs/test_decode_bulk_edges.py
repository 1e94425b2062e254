"""Seats and gates at the edges: places that clash, kinds of seats, samples that are no decimals."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_frt.certs.decode_bulk import GATES, seats
from pytest_frt.certs.shape import Misfit
from pytest_frt.contracts.record import GateRow
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, RoutedSeat, SlotRef

Members = dict[str, Any]
GATE: Members = {
    "name": "a.b",
    "op": ">=",
    "floor": "1",
    "measured": "1.5",
    "n": 2,
    "statistic": "median",
    "samples": ["1.5", "2"],
    "band": "pass",
}
MODULE = {"kind": "module", "path": "m.0"}
ROUTED = {"kind": "routed", "path": "m.1", "function": "sdpa"}
PAIR = {"kind": "pair", "producer": "m.q", "consumers": ["m.k", "m.v"]}


def seat(at: object, **changes: object) -> Members:
    return {
        "at": at,
        "variant": {"activation": "gelu"},
        "dims": {"D": 0},
        "slots": {"w": {"tensor": "m.0.weight", "transpose": True}},
        "constants": {"eps": "0.5"},
        "dtype": "float32",
        "points": {"x": "m.0.up"},
        "weights": {"sha256": "a" * 64},
        "scales": {"x": "0.25"},
    } | changes


def test_seats_of_each_kind_are_read() -> None:
    found = seats([seat(one) for one in (MODULE, ROUTED, PAIR)], "ffn")
    assert [one.facts.seat for one in found] == [
        ModuleSeat("m.0"),
        RoutedSeat("m.1", "sdpa"),
        PairSeat("m.q", ("m.k", "m.v")),
    ]
    first = found[0]
    assert (first.facts.structure, first.facts.variant, first.facts.dims) == ("ffn", {"activation": "gelu"}, {"D": 0})
    assert (first.facts.slots, first.facts.points) == (
        {"w": SlotRef("m.0.weight", transpose=True)},
        {"x": PointAt("m.0.up")},
    )
    assert (first.facts.constants, first.facts.dtype) == ({"eps": 0.5}, "float32")
    assert (first.weights_digest, first.scales) == ("a" * 64, {"x": "0.25"})


CLASH = "is not a non-empty array of seats at different places"
NO_SEATS: dict[str, tuple[object, str]] = {
    "none": ([], CLASH),
    "one place twice": ([seat(MODULE), seat(MODULE)], CLASH),
    "a place of a pair": ([seat(PAIR), seat(MODULE | {"path": "m.v"})], CLASH),
    "a pair of one place": ([seat(PAIR | {"consumers": ["m.q"]})], CLASH),
    "another kind": ([seat(MODULE | {"kind": "hook"})], "is not one of module, pair, routed"),
    "no object": ([seat([])], "is not an object"),
    "no path": ([seat({"kind": "module"})], "has no member 'path'"),
    "no function": ([seat({"kind": "routed", "path": "a"})], "has no member 'function'"),
    "no producer": ([seat({"kind": "pair", "consumers": []})], "has no member 'producer'"),
    "consumers as text": ([seat(PAIR | {"consumers": "m.k"})], "is not an array"),
    "a dimension below zero": ([seat(MODULE, dims={"D": -1})], "is not an integer from 0"),
    "a constant as number": ([seat(MODULE, constants={"eps": 1})], "is not a decimal string"),
    "a point as number": ([seat(MODULE, points={"x": 1})], "is not text"),
    "a transposition as number": ([seat(MODULE, slots={"w": {"tensor": "a", "transpose": 1}})], "is not true or false"),
}


@pytest.mark.parametrize("case", NO_SEATS)
def test_seats_that_do_not_fit(case: str) -> None:
    value, words = NO_SEATS[case]
    with pytest.raises(Misfit, match=words):
        seats(value, "ffn")


@pytest.mark.parametrize(("member", "values"), [
    ("op", (">=", "<=")),
    ("statistic", ("frt_nw_1", "max", "median", "min")),
    ("band", ("pass", "warn")),
    ("n", (0, 1)),
    ("samples", ([], ["0"], ["-1"], ["0:1.5", "999:2"], ["0." + "1" * 12])),
])  # fmt: skip
def test_gates_are_read(member: str, values: tuple[object, ...]) -> None:
    for value in values:
        said = GATE | {member: value}
        want = GateRow(*(tuple(part) if isinstance(part, list) else part for part in said.values()))
        assert GATES([said]) == (want,)


NO_GATES: dict[str, tuple[Members, str, str]] = {
    "another comparison": ({"op": "=="}, "", "[0].op"),
    "another fold": ({"statistic": "mean"}, "", "[0].statistic"),
    "another band": ({"band": "fail"}, "", "[0].band"),
    "fewer than none": ({"n": -1}, "", "[0].n"),
    "a floor that is no decimal": ({"floor": "1e3"}, "DECIMAL", "[0].floor"),
    "a number that is no decimal": ({"measured": "1."}, "DECIMAL", "[0].measured"),
    "samples in an object": ({"samples": {}}, "", "[0].samples"),
    "a sample as number": ({"samples": ["1", 2]}, "DECIMAL", "[0].samples"),
    "only numbers": ({"samples": [1]}, "DECIMAL", "[0].samples"),
    "a sample of an exponent": ({"samples": ["1", "1e0"]}, "DECIMAL", "[0].samples"),
    "a process of four digits": ({"samples": ["1000:1"]}, "DECIMAL", "[0].samples"),
    "a line feed after a sample": ({"samples": ["1\n"]}, "DECIMAL", "[0].samples"),
    "13 fraction digits": ({"samples": ["0." + "1" * 13]}, "DECIMAL", "[0].samples"),
}


@pytest.mark.parametrize("case", NO_GATES)
def test_gates_that_do_not_fit(case: str) -> None:
    changes, code, place = NO_GATES[case]
    with pytest.raises(Misfit) as caught:
        GATES([GATE | changes])
    assert (caught.value.code, caught.value.place) == (code, place)
