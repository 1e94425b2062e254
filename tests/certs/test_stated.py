"""What a policy demands to be stated must be stated: empty is absent, and a fact that nobody knows is never stated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.certs.conftest import World

DEVICE_LINE, HOST_LINE = 'device = ["arch", "name"]', 'host = ["transformers", "configDigest"]'
DEVICE = {"kind": "", "arch": "", "name": "", "isa": [], "threads": 0, "math": ""}
UNSAID = {"kind": "NAME", "arch": "NAME"}
"""Facts whose absence the statement itself cannot say."""
HOST = {"class": "", "moduleSourceDigest": [], "library": {}}


def code(world: World, payload: bytes | None, change: tuple[str, str]) -> str:
    (outcome,) = world.verify(world.line(payload), changes=(change,))
    return getattr(outcome, "code", "")


@pytest.mark.parametrize("name", DEVICE)
def test_every_device_fact_can_be_demanded(world: World, name: str) -> None:
    demand = (DEVICE_LINE, f'device = ["{name}"]')
    without = world.spoiled(lambda s: s["predicate"]["device"].update({name: DEVICE[name]}))
    assert code(world, None, demand) == ""
    assert code(world, without, demand) == UNSAID.get(name, "DEVICE_MISSING")


@pytest.mark.parametrize("name", ["math", "isa", "threads"])
def test_what_is_not_demanded_may_be_absent(world: World, name: str) -> None:
    without = world.spoiled(lambda s: s["predicate"]["device"].update({name: DEVICE[name]}))
    assert code(world, without, (DEVICE_LINE, DEVICE_LINE)) == ""


@pytest.mark.parametrize("name", ["colour", "__class__"])
def test_a_device_fact_that_nobody_knows_is_never_stated(world: World, name: str) -> None:
    assert code(world, None, (DEVICE_LINE, f'device = ["{name}"]')) == "DEVICE_MISSING"


@pytest.mark.parametrize("name", HOST)
def test_host_facts_and_libraries_can_be_demanded(world: World, name: str) -> None:
    asked = "transformers" if name == "library" else name
    demand = (HOST_LINE, f'host = ["{asked}"]')
    without = world.spoiled(lambda s: s["predicate"]["host"].update({name: HOST[name]}))
    assert code(world, None, demand) == ""
    assert code(world, without, demand) == "HOST_MISSING"
