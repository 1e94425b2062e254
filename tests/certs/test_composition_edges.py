"""Places that collide: the same, one inside the other either way, and the model that holds all; said by both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import verify
from pytest_frt.certs.composition import Places
from pytest_frt.contracts.seat import ModuleSeat

if TYPE_CHECKING:
    from pytest_frt.contracts.record import Record
    from tests.certs.conftest import World

AT = "model.layers.0.mlp"
COLLISIONS: dict[str, tuple[set[str], set[str], tuple[str, str] | None]] = {
    "the same": ({"a.b"}, {"a.b"}, ("a.b", "a.b")),
    "inside one": ({"a"}, {"a.b.c"}, ("a", "a.b.c")),
    "around one": ({"a.b.c"}, {"a"}, ("a.b.c", "a")),
    "around several": ({"a.c", "a.b"}, {"a"}, ("a.b", "a")),
    "the nearest around it": ({"a", "a.b"}, {"a.b.c"}, ("a.b", "a.b.c")),
    "the model around it": ({""}, {"a.b"}, ("", "a.b")),
    "around it the model": ({"a.b"}, {""}, ("a.b", "")),
    "the first of several": ({"a", "b"}, {"b", "a"}, ("a", "a")),
    "beside": ({"a.b"}, {"a.c"}, None),
    "the same letters": ({"a.b"}, {"a.bc", "a.b_", "b"}, None),
    "nothing": (set(), {"a"}, None),
}


@pytest.mark.parametrize(("some", "others", "found"), COLLISIONS.values(), ids=COLLISIONS)
def test_places_that_collide(some: set[str], others: set[str], found: tuple[str, str] | None) -> None:
    taken = Places()
    for place in sorted(some, reverse=True):
        taken.add({place})
    together = Places()
    together.add(some)
    assert taken.meeting(others) == together.meeting(others) == found


def placed(world: World, *places: str) -> list[bytes]:
    """Return a payload per place: cells of different impls with one seat each."""
    seat, key = world.record.seats[0], world.record.key

    def cell(number: int, place: str) -> Record:
        facts = replace(seat.facts, seat=ModuleSeat(place))
        named = replace(key, cell=replace(key.cell, impl=f"impl{number}"))
        return replace(world.record, key=named, seats=(replace(seat, facts=facts),), calibration=None)

    return [world.payload(cell(number, place)) for number, place in enumerate(places)]


SAID = {
    "one place": ((AT, AT), f"two members of the plan sit at {AT}"),
    "one in the other": (
        (AT, f"{AT}.act"),
        f"two members of the plan sit one inside the other: at {AT} and at {AT}.act",
    ),
    "the last in the first": (
        (AT, "model.layers.1.mlp", f"{AT}.act"),
        f"two members of the plan sit one inside the other: at {AT} and at {AT}.act",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_members_that_collide_are_said_with_both_places(world: World, case: str) -> None:
    places, words = SAID[case]
    members = placed(world, *places)
    *cells, plan = world.verify(*map(world.line, members), world.line(world.plan(*members)))
    assert all(isinstance(cell, verify.Accepted) for cell in cells)
    assert isinstance(plan, verify.Refused)
    assert plan.code == "PLAN_MEMBER"
    assert plan.message in {words, words.replace(f"at {AT} and at {AT}.act", f"at {AT}.act and at {AT}")}


def test_members_side_by_side_are_a_plan(world: World) -> None:
    members = placed(world, AT, "model.layers.1.mlp", "model.layers.0.mlp_norm")
    *_, plan = world.verify(*map(world.line, members), world.line(world.plan(*members)))
    assert isinstance(plan, verify.Accepted)
