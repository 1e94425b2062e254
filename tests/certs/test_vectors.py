"""Refusals beside the published vectors (``vectors``): one spoiled thing each, refused with exactly the stated code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import index, keys, verify

if TYPE_CHECKING:
    from tests.certs.conftest import World

Lines = Callable[["World"], list[bytes]]


@dataclass(frozen=True)
class Vector:
    name: str
    code: str
    lines: Lines
    changes: tuple[tuple[str, str], ...] = ()


def plain(world: World) -> list[bytes]:
    return [world.line()]


def predicate(spoil: Callable[[dict[str, Any]], object]) -> Lines:
    return lambda world: [world.line(world.spoiled(lambda statement: spoil(statement["predicate"])))]


def text(old: str, new: str) -> Lines:
    def build(world: World) -> list[bytes]:
        payload = world.payload().decode()
        assert old in payload
        return [world.line(payload.replace(old, new, 1).encode())]

    return build


def stranger(world: World) -> list[bytes]:
    return [world.line(key=keys.generate())]


def change(**changes: object) -> Lines:
    return predicate(lambda members: members.update(changes))


VECTORS = [
    Vector("NaN among samples", "DECIMAL", text('"samples":["0.51",', '"samples":["NaN",')),
    Vector("crit names an absent member", "CRIT", change(crit=["dropped"])),
    Vector("floor looser than the policy's", "GATE_FLOOR", plain, (('value = "0.1"', 'value = "0.001"'),)),
    Vector("no seat", "SCHEMA", change(seats=[])),
    Vector("host of another cell", "SCHEMA", predicate(lambda p: p["cell"].update(host="other"))),
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_vector(world: World, vector: Vector) -> None:
    outcomes = world.verify(*vector.lines(world), changes=vector.changes)
    assert [type(outcome) for outcome in outcomes] == [verify.Refused]
    assert [outcome.code for outcome in outcomes] == [vector.code], outcomes


def test_b10_denied_payload(world: World) -> None:
    name = hashlib.sha256(world.payload()).hexdigest()
    deny = (("deny = []", f'deny = [{{ payload = "{name}", reason = "out-of-bounds read" }}]'),)
    (outcome,) = world.verify(world.line(), changes=deny)
    assert (outcome.code, "out-of-bounds read" in outcome.message) == ("DENIED", True)


def test_an_unverified_line_shows_no_text_of_its_own(world: World) -> None:
    evil = b"\x1b[31mACCEPTED"
    document = json.loads(world.line(key=keys.generate()))
    document["payloadType"] = evil.decode()
    outcomes = world.verify(json.dumps(document).encode(), evil, *stranger(world))
    assert len(outcomes) == 3
    for outcome in outcomes:
        assert "ACCEPTED" not in f"{outcome.message}{outcome.title}"
        assert outcome.title == ""


def test_the_payload_is_not_parsed_before_its_signature_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(_: bytes) -> None:
        raise AssertionError("parsed an unsigned payload")

    monkeypatch.setattr(index, "open_statement", explode)
    (outcome,) = world.verify(*stranger(world))
    assert outcome.code == "SIG_NONE"
    with pytest.raises(AssertionError, match="parsed"):
        world.verify(world.line())


def test_min_time_lifts_a_clock_and_not_an_audit(world: World) -> None:
    long_ago = world.line(world.spoiled(lambda s: s["predicate"].update(
        issuedAt="2026-02-01T00:00:00Z", expiresAt="2026-03-01T00:00:00Z")))  # fmt: skip
    policy, at = world.policy(), datetime(2026, 2, 15, tzinfo=UTC)
    assert verify.verify_set([long_ago], policy, at)[0].code == "EXPIRED"
    assert isinstance(verify.verify_set([long_ago], policy, at, audit=True)[0], verify.Accepted)
