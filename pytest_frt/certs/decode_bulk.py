"""Seats and gates of a predicate: the bulk of every certificate. See ``decode``."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

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
    found = array(record(partial(_seat, structure), *_SEAT))(value)
    places = [place for seat in found for place in seat.facts.seat.places]
    if not found or len(set(places)) != len(places):
        raise Misfit("is not a non-empty array of seats at different places")
    return found


def _seat(structure: str, *found: Any) -> SeatRecord:  # noqa: ANN401 (what the readers of _SEAT return)
    *facts, weights, scales = found
    return SeatRecord(SeatFacts(structure, *facts), weights, scales)


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
_SEAT: Final = (  # the members of SeatFacts, in its order, and two more of SeatRecord
    ("at", _place),
    ("variant", text_map),
    ("dims", mapping(integer())),
    ("slots", mapping(_SLOT)),
    ("constants", mapping(lambda value: float(real(value)))),
    ("dtype", identifier),
    ("points", mapping(lambda value: PointAt(text(value)))),
    ("weights", digest_set),
    ("scales", mapping(real)),
)
