"""What an arm must read: its matmul weights, each tensor once, of the seats that it takes."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.job import UnitRef
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.contracts.structure import SlotSpec, Structure
from pytest_frt.measure.traffic import least_bytes, weight_elements

SLOTS = (SlotSpec("w", ("K", "N"), "matmul"), SlotSpec("b", ("N",), "bias", optional=True))
PROJ = Structure("proj", 1, "", (), (), SLOTS, {}, (), (), (), "", "", "")


def seat(path: str, tensor: str = "", structure: str = "proj") -> SeatFacts:
    slots = {"w": SlotRef(tensor or f"{path}.weight"), "b": SlotRef(f"{path}.bias")}
    return SeatFacts(structure, ModuleSeat(path), {}, {"K": 8, "N": 16}, slots, {}, "float32", {})


def unit(*seats: str) -> UnitRef:
    return UnitRef("proj", "", "fast", "", "exact", "", "a/b", "", "", (1, 8), seats)


ALL = (seat("a"), seat("b"), seat("other", structure="norm"))


@pytest.mark.parametrize(
    ("seats", "units", "elements"),
    [
        pytest.param(ALL, (unit("a"),), 128, id="one_seat"),
        pytest.param(ALL, (unit(),), 256, id="every_seat_of_the_structure"),
        pytest.param(ALL, (unit("a"), unit("b")), 256, id="two_units_of_one_structure"),
        pytest.param((seat("a", "tied"), seat("b", "tied")), (unit(),), 128, id="tied_weights_count_once"),
        pytest.param(ALL, (), 0, id="base"),
    ],
)
def test_elements(seats: tuple[SeatFacts, ...], units: tuple[UnitRef, ...], elements: int) -> None:
    assert weight_elements(seats, units, {"proj": PROJ}) == elements


@pytest.mark.parametrize(("elements", "bits", "read"), [(128, 4.0, 64), (3, 4.0, 1), (0, 4.0, 0), (128, 16.0, 256)])
def test_bytes(elements: int, bits: float, read: int) -> None:
    assert least_bytes(elements, bits) == read
