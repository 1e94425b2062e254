"""What is remembered at its edges: fractions of a second, indexes that stand alone, facts that a place may lack."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import state, statement, verify
from pytest_frt.certs.index import Index, parse_index
from pytest_frt.certs.state import STATE, Memory, Seen
from pytest_frt.certs.strict_json import Caps
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW, RECORD
from tests.certs.test_index import index_of
from tests.certs.test_state import accepted, certified, seen

if TYPE_CHECKING:
    from tests.certs.conftest import World

NAMED, OTHER = "a" * 64, "b" * 64


def standing(version: int, issuer: str = "acme") -> Index:
    return parse_index(index_of(version=version, issuer=issuer))


def test_a_first_use_knows_nothing() -> None:
    assert Memory() == Memory(0, datetime(1970, 1, 1, tzinfo=UTC), {}, {})
    assert Caps(size=16 * 1024 * 1024, separators=500_000) == STATE


def test_the_clock_is_remembered_in_whole_seconds_and_never_turned_back(world: World) -> None:
    policy, late = world.policy(), NOW + timedelta(days=1)
    found = accepted(world, policy, world.payload())
    memory = state.remember(Memory(), policy, NOW.replace(second=5, microsecond=999_999), found)
    assert memory.last_seen == NOW.replace(second=5)
    assert state.remember(replace(memory, last_seen=late), policy, NOW, found).last_seen == late


def test_the_policy_counts_without_a_certificate_and_the_clock_does_not(world: World) -> None:
    memory = state.remember(Memory(policy_version=7), world.policy(), NOW, [])
    assert memory == Memory(policy_version=7)
    assert state.remember(Memory(), world.policy(), NOW, []) == Memory(policy_version=7)


def test_an_index_that_stands_is_remembered_without_a_certificate(world: World) -> None:
    mine, theirs = standing(3), standing(9, "other")
    memory = state.remember(Memory(), world.policy(), NOW, [], [mine, theirs])
    assert memory.indexes == {"acme": Seen(3, mine.payload_sha256), "other": Seen(9, theirs.payload_sha256)}
    assert memory.last_seen == Memory().last_seen
    later = standing(4)
    assert state.remember(memory, world.policy(), NOW, [], [later]).indexes["acme"] == Seen(4, later.payload_sha256)
    for version, code in ((2, "INDEX_ROLLBACK"), (3, "")):
        try:
            state.remember(memory, world.policy(), NOW, [], [standing(version)])
            found = ""
        except CertificateRefused as refusal:
            found = refusal.refusal_code
        assert found == code


def test_the_index_a_certificate_was_listed_in_is_remembered_with_it(world: World) -> None:
    (one,) = accepted(world, world.policy(), world.payload())
    index = parse_index(index_of(one.name, version=3))
    memory = state.remember(Memory(), world.policy(), NOW, [replace(one, index=index)])
    assert memory.indexes == {"acme": Seen(3, index.payload_sha256)}
    assert state.remember(Memory(), world.policy(), NOW, [one]).indexes == {}


def test_what_was_remembered_of_others_is_kept(world: World) -> None:
    before = Memory(9, NOW + timedelta(days=9), {"other": Seen(1, NAMED)}, {"elsewhere": Seen(2, OTHER)})
    policy = replace(world.policy(), version=9)
    memory = state.remember(before, policy, NOW, accepted(world, policy, world.payload()), [standing(3)])
    assert (memory.policy_version, memory.last_seen) == (9, before.last_seen)
    assert memory.indexes["other"] == Seen(1, NAMED)
    assert memory.certificates["elsewhere"] == Seen(2, OTHER)
    assert (set(memory.indexes), len(memory.certificates)) == ({"other", "acme"}, 2)
    assert (set(before.indexes), set(before.certificates)) == ({"other"}, {"elsewhere"})


def test_a_place_without_a_torch_says_so(world: World) -> None:
    cell = statement.parse_payload(world.spoiled(lambda s: s["predicate"]["software"].pop("torch")))
    plan = statement.parse_payload(
        world.spoiled(lambda s: s["predicate"]["software"].pop("torch"), world.plan(world.payload()))
    )
    assert [json.loads(state.place_of(one))[-1] for one in (cell, plan)] == ["", ""]


def test_twins_are_named_in_one_order_whoever_finds_them() -> None:
    for one, other in ((NAMED, OTHER), (OTHER, NAMED)):
        refusal = state.equivocation("what", one, other)
        assert (refusal.refusal_code, refusal.message) == (
            "EQUIVOCATION",
            f"what exists twice: {NAMED} and {OTHER}",
        )


def test_a_refusal_names_what_was_seen_and_what_is_shown(world: World) -> None:
    new, old = certified(world, 5), certified(world, 4)
    (outcome,) = verify.verify_set([world.line(old)], world.policy(), NOW, state=seen(new))
    assert isinstance(outcome, verify.Refused)
    digest = statement.parse_payload(new).payload_sha256
    called = f"serial 4 of {RECORD.key.id} by acme"
    assert outcome.message == f"{called}: serial 5 was accepted before, as {digest}"


def test_a_clock_that_runs_back_is_refused_with_both_moments(world: World) -> None:
    with pytest.raises(CertificateRefused) as caught:
        Memory(last_seen=NOW).check_clock(NOW - timedelta(seconds=301), world.policy())
    assert caught.value.message == "the clock says 2026-11-30T23:54:59Z, 2026-12-01T00:00:00Z was seen before"


def test_damage_is_told_with_the_file_and_the_place() -> None:
    good = state.memory_bytes(Memory(indexes={"acme": Seen(3, NAMED)}))
    for old, new, said in (
        (b'"policyVersion":0', b'"policyVersion":-1', "state.policyVersion"),
        (b'"number":3', b'"number":-1', "state.indexes[0].number"),
    ):
        with pytest.raises(CertificateRefused, match="is damaged") as caught:
            state.parse_memory(good.replace(old, new), "here.json")
        assert caught.value.message.startswith(f"here.json is damaged: {said} is not")
        assert "removing here.json forgets" in (caught.value.hint or "")
    with pytest.raises(CertificateRefused, match=r"^state is damaged"):
        state.parse_memory(b"{")
    twice = good.replace(b"[{", b'[{"number":1,"of":"acme","payload":"' + OTHER.encode() + b'"},{', 1)
    with pytest.raises(CertificateRefused, match=r"state\.indexes\[1\]\.of is not named once"):
        state.parse_memory(twice)


def test_a_memory_is_written_sorted_and_whole() -> None:
    memory = Memory(3, NOW, {"b": Seen(2, OTHER), "a": Seen(1, NAMED)}, {"c": Seen(4, NAMED)})
    assert json.loads(state.memory_bytes(memory)) == {
        "schema": "frt-state/1",
        "policyVersion": 3,
        "lastSeen": "2026-12-01T00:00:00Z",
        "indexes": [{"of": "a", "number": 1, "payload": NAMED}, {"of": "b", "number": 2, "payload": OTHER}],
        "certificates": [{"of": "c", "number": 4, "payload": NAMED}],
    }


@pytest.mark.parametrize("member", ["schema", "policyVersion", "lastSeen", "indexes", "certificates"])
def test_a_memory_that_lacks_a_member_is_damaged(member: str) -> None:
    document = json.loads(state.memory_bytes(Memory()))
    del document[member]
    with pytest.raises(CertificateRefused) as caught:
        state.parse_memory(json.dumps(document).encode())
    assert caught.value.refusal_code == "STATE_CORRUPT"
