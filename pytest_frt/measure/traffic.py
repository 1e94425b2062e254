"""The fewest bytes that an arm must read in one execution: its matmul weights, once, at the narrowest width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pytest_frt.contracts.job import UnitRef
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.structure import Structure
from pytest_frt.spec.dims import shape_of


def weight_elements(seats: Iterable[SeatFacts], units: Iterable[UnitRef], structures: Mapping[str, Structure]) -> int:
    """Return how many matmul weight elements the seats of ``units`` hold; a tensor that several share counts once.

    Args:
        seats: Every seat of the host.
        units: What an arm attaches; a unit that names no seats takes every seat of its structure.
        structures: Catalog name to structure, of the units at least.
    """
    wanted, found = tuple(units), dict[str, int]()
    for seat in seats:
        if not any(unit.structure == seat.structure and (not unit.seats or seat.id in unit.seats) for unit in wanted):
            continue
        for slot in structures[seat.structure].slots:
            if slot.role == "matmul" and slot.name in seat.slots:
                found[seat.slots[slot.name].tensor] = math.prod(shape_of(slot.shape, seat.dims))
    return sum(found.values())


def least_bytes(elements: int, bits: float) -> int:
    """Return the bytes of ``elements`` weights at ``bits`` each, rounded down."""
    return int(elements * bits / 8)
