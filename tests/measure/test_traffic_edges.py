"""Edges of what an arm must read: seats of other structures before it, seats of other sizes, slots left empty."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.job import UnitRef
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import SlotSpec, Structure
from pytest_frt.measure.traffic import least_bytes, weight_elements

SLOTS = (SlotSpec("w", ("K", "N"), "matmul"), SlotSpec("gate", ("K", "N"), "matmul", optional=True))
PROJ = Structure("proj", 1, "", (), (), SLOTS, {}, (), (), (), "", "", "")


def seat(path: str, width: int, *, structure: str = "proj", slots: tuple[str, ...] = ("w",)) -> SeatFacts:
    held = {slot: SlotRef(f"{path}.{slot}") for slot in slots}
    return SeatFacts(structure, ModuleSeat(path), {}, {"K": 2, "N": width}, held, {}, "float32", {})


def unit(*seats: str) -> UnitRef:
    return UnitRef("proj", "", "fast", "", "exact", "", "a/b", "", "", (1, 8), seats)


SEATS = (seat("norm", 100, structure="norm"), seat("a", 3), seat("b", 5, slots=("w", "gate")))


@pytest.mark.parametrize(
    ("units", "elements"),
    [
        pytest.param((unit("a"),), 6, id="small"),
        pytest.param((unit("b"),), 20, id="wide_with_both_slots"),
        pytest.param((unit(),), 26, id="all"),
        pytest.param((unit("a", "norm"),), 6, id="a_seat_of_another_structure_is_not_read"),
    ],
)
def test_elements_of_the_seats_taken(units: tuple[UnitRef, ...], elements: int) -> None:
    assert weight_elements(SEATS, units, {"proj": PROJ}) == elements


@pytest.mark.parametrize(("elements", "bits", "read"), [(7, 8.0, 7), (8, 8.5, 8), (1, 7.0, 0)])
def test_bytes_are_rounded_down(elements: int, bits: float, read: int) -> None:
    assert least_bytes(elements, bits) == read
