"""Seats and gates of a predicate: the bulk of every certificate, read without a cursor. See ``decode``."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from pytest_frt.certs.shape import (
    Misfit,
    array,
    decimal,
    digest_set,
    flag,
    identifier,
    integer,
    mapping,
    member,
    members,
    real,
    record,
    text,
    text_map,
    texts,
    word,
)
from pytest_frt.contracts.record import GateRow, SeatRecord
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, RoutedSeat, Seat, SeatFacts, SlotRef

OPS: Final = (">=", "<=")
STATISTICS: Final = ("frt_nw_1", "max", "median", "min")
BANDS: Final = ("pass", "warn")
_SAMPLE: Final = re.compile(r"(?:[0-9]{1,3}:)?-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,12})?")


def seats(value: object, structure: str) -> tuple[SeatRecord, ...]:
    """Return seats of one structure, each at a place of its own."""
    found = array(lambda item: _seat(item, structure))(value)
    places = [place for seat in found for place in seat.facts.seat.places]
    if not found or len(set(places)) != len(places):
        raise Misfit("is not a non-empty array of seats at different places")
    return found


def _seat(value: object, structure: str) -> SeatRecord:
    facts, of = record(partial(SeatFacts, structure), *_FACTS)(value), members(value)
    return SeatRecord(facts, member(of, "weights", digest_set), member(of, "scales", _SCALES))


def _place(value: object) -> Seat:
    of = members(value)
    match member(of, "kind", _PLACES):
        case "module":
            return ModuleSeat(member(of, "path", text))
        case "routed":
            return RoutedSeat(member(of, "path", text), member(of, "function", text))
        case _:
            return PairSeat(member(of, "producer", text), member(of, "consumers", texts))


def _samples(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Misfit("is not an array")
    # The bulk of a certificate: no place per number.
    if not {*map(type, value)} <= {str} or not all(map(_SAMPLE.fullmatch, value)):
        raise Misfit("holds a sample that is not a decimal string", "DECIMAL")
    return tuple(value)


_PLACES: Final = word("module", "pair", "routed")
_SCALES: Final = mapping(real)
_SLOT: Final = record(SlotRef, ("tensor", text), ("transpose", flag))
_GATE: Final = record(
    GateRow,
    ("name", identifier),
    ("op", word(*OPS)),
    ("floor", decimal),
    ("measured", decimal),
    ("n", integer()),
    ("statistic", word(*STATISTICS)),
    ("samples", _samples),
    ("band", word(*BANDS)),
)
GATES: Final = array(_GATE)
"""Reader of the gates of a predicate."""
_FACTS: Final = (  # the members of SeatFacts, in its order
    ("at", _place),
    ("variant", text_map),
    ("dims", mapping(integer())),
    ("slots", mapping(_SLOT)),
    ("constants", mapping(lambda value: float(real(value)))),
    ("dtype", identifier),
    ("points", mapping(lambda value: PointAt(text(value)))),
)
