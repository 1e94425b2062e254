"""What was seen before: older policies, clocks, indexes and certificates are refused, and order never matters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_frt.certs import state, statement, verify
from pytest_frt.certs.index import parse_index
from pytest_frt.certs.state import Memory, Seen
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW, RECORD, World
from tests.certs.test_index import index_of

if TYPE_CHECKING:
    from pytest_frt.certs.policy import Policy

BEFORE = ("deny = []", "deny = []")  # changes nothing


def certified(world: World, serial: int, **changes: object) -> bytes:
    return world.spoiled(lambda s: s["predicate"].update(serial=serial, **changes))


def sha(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def seen(*payloads: bytes, **changes: Any) -> Memory:
    """Return a memory in which these certificates were accepted."""
    parsed = [statement.parse_payload(payload) for payload in payloads]
    counters = {state.place_of(one): Seen(one.serial, one.payload_sha256) for one in parsed}
    return replace(Memory(certificates=counters), **changes)


def code(world: World, payload: bytes, memory: Memory, change: tuple[str, str] = BEFORE) -> str:
    (outcome,) = verify.verify_set([world.line(payload)], world.policy(change), world.now, state=memory)
    return "" if isinstance(outcome, verify.Accepted) else outcome.code


def test_a_first_use_takes_what_it_finds(world: World) -> None:
    assert code(world, certified(world, 5), Memory()) == ""


def test_r1_lower_serial(world: World) -> None:
    assert code(world, certified(world, 4), seen(certified(world, 5))) == "ROLLBACK"


def test_a_higher_serial_and_the_same_certificate_are_taken(world: World) -> None:
    memory = seen(certified(world, 5))
    assert [code(world, certified(world, serial), memory) for serial in (5, 6)] == ["", ""]


def test_r2_same_serial_other_payload_names_both(world: World) -> None:
    one, other = certified(world, 5), certified(world, 5, seed=8)
    (outcome,) = verify.verify_set([world.line(other)], world.policy(), world.now, state=seen(one))
    assert isinstance(outcome, verify.Refused)
    assert outcome.code == "EQUIVOCATION"
    assert {sha(one), sha(other), RECORD.key.id, "acme"} <= set(outcome.message.replace(",", "").split())


def test_r2_twins_in_one_set_are_both_refused(world: World) -> None:
    lines = [world.line(certified(world, 5)), world.line(certified(world, 5, seed=8))]
    outcomes = verify.verify_set(lines, world.policy(), world.now, state=Memory())
    assert [outcome.code for outcome in outcomes if isinstance(outcome, verify.Refused)] == ["EQUIVOCATION"] * 2


def test_r3_below_min_serial_needs_no_memory(world: World) -> None:
    floor = ("threshold = 1", "threshold = 1\nmin_serial = 5")
    found = [world.verify(world.line(certified(world, serial)), changes=(floor,))[0] for serial in (4, 5)]
    assert [getattr(one, "code", "") for one in found] == ["SERIAL_MIN", ""]


def test_the_highest_min_serial_of_several_rules_counts(world: World) -> None:
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    world.policy_text += rule.replace("threshold = 1", "threshold = 1\nmin_serial = 9")
    (outcome,) = world.verify(world.line(certified(world, 8)))
    assert isinstance(outcome, verify.Refused)
    assert outcome.code == "SERIAL_MIN"


def pin(payload: bytes) -> tuple[str, str]:
    return ("deny = []", f'allow_rollback = [{{ payload = "{sha(payload)}", reason = "v2 is slower here" }}]')


def test_a_pinned_older_certificate_is_taken_and_no_other(world: World) -> None:
    old, memory = certified(world, 4), seen(certified(world, 5))
    assert code(world, old, memory, pin(old)) == ""
    assert code(world, certified(world, 3), memory, pin(old)) == "ROLLBACK"


def test_a_pin_forgives_neither_a_twin_nor_a_floor(world: World) -> None:
    old = certified(world, 5, seed=8)
    assert code(world, old, seen(certified(world, 5)), pin(old)) == "EQUIVOCATION"
    world.policy_text = world.policy_text.replace("threshold = 1", "threshold = 1\nmin_serial = 6")
    assert code(world, old, Memory(), pin(old)) == "SERIAL_MIN"


def test_a_rolled_back_member_refuses_its_plan(world: World) -> None:
    old = certified(world, 4)
    lines = [world.line(old), world.line(world.plan(old))]
    outcomes = verify.verify_set(lines, world.policy(), world.now, state=seen(certified(world, 5)))
    assert [outcome.code for outcome in outcomes if isinstance(outcome, verify.Refused)] == ["ROLLBACK", "PLAN_MEMBER"]


def test_an_older_plan_of_present_members_is_refused(world: World) -> None:
    member = certified(world, 5)
    plans = [world.spoiled(lambda s, n=n: s["predicate"].update(serial=n), world.plan(member)) for n in (4, 5)]
    lines = [world.line(member), world.line(plans[0])]
    _, plan = verify.verify_set(lines, world.policy(), world.now, state=seen(plans[1]))
    assert isinstance(plan, verify.Refused)
    assert plan.code == "ROLLBACK"


ELSEWHERE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another issuer": lambda p: p.update(issuer="other"),
    "another phase": lambda p: p["deployment"].update(phase="prefill"),
    "another checkpoint": lambda p: p["host"].update(checkpoint=f"sha256:{'b' * 64}"),
    "another machine model": lambda p: p["device"].update(name="Other CPU"),
    "other threads": lambda p: p["device"].update(threads=4),
    "another torch": lambda p: p["software"].update(torch="2.14.0"),
    "another impl": lambda p: p["cell"].update(impl="other@1"),
}
SAME_PLACE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another kernel": lambda p: p["kernel"].update(treeDigest="b" * 64),
    "another impl version": lambda p: p["cell"].update(impl="torch_packed@2"),
    "another structure version": lambda p: p["cell"].update(structure="decoder_ffn@2"),
    "another kernels library": lambda p: p["software"].update(kernels="0.17.3"),
    "another seed": lambda p: p.update(seed=8),
}


@pytest.mark.parametrize("change", ELSEWHERE.values(), ids=ELSEWHERE)
def test_serials_of_other_places_count_on_their_own(world: World, change: Callable[[dict[str, Any]], object]) -> None:
    other = world.spoiled(lambda s: change(s["predicate"]))
    assert state.place_of(statement.parse_payload(other)) != state.place_of(statement.parse_payload(world.payload()))


@pytest.mark.parametrize("change", SAME_PLACE.values(), ids=SAME_PLACE)
def test_what_a_newer_release_changes_is_the_same_place(
    world: World, change: Callable[[dict[str, Any]], object]
) -> None:
    other = world.spoiled(lambda s: change(s["predicate"]))
    assert state.place_of(statement.parse_payload(other)) == state.place_of(statement.parse_payload(world.payload()))


def test_places_are_written_the_same_by_every_release(world: World) -> None:
    """A state file outlives the release that wrote it."""
    cell, plan = (statement.parse_payload(one) for one in (world.payload(), world.plan(world.payload())))
    about = [RECORD.host.checkpoint, "x86_64", "Some CPU @ 2.00GHz", 2, "2.13.0+cpu"]
    named = ["decoder_ffn", "torch_packed", "toy", "w16a32", "cpu", "eager", "decode", "real", "hot"]
    assert state.place_of(cell) == json.dumps(["acme", "cell", *named, *about])
    assert state.place_of(plan) == json.dumps(["acme", "plan", "toy-cpu@eager.decode.real.hot", *about])


def test_a_place_does_not_depend_on_the_order_of_members(world: World) -> None:
    document = json.loads(world.payload())
    document["predicate"] = dict(reversed(document["predicate"].items()))
    document["predicate"]["cell"] = dict(reversed(document["predicate"]["cell"].items()))
    turned = statement.parse_payload(json.dumps(document).encode())
    assert state.place_of(turned) == state.place_of(statement.parse_payload(world.payload()))


@pytest.mark.parametrize(("version", "expected"), [(6, ""), (7, ""), (8, "POLICY_ROLLBACK")])
def test_k9_policy_version(world: World, version: int, expected: str) -> None:
    assert code(world, world.payload(), Memory(policy_version=version)) == expected


@pytest.mark.parametrize(
    ("ahead", "expected"), [(0, ""), (300, ""), (301, "CLOCK_ROLLBACK"), (10**8, "CLOCK_ROLLBACK")]
)
def test_t7_clock_behind_what_was_seen(world: World, ahead: int, expected: str) -> None:
    assert code(world, world.payload(), Memory(last_seen=NOW + timedelta(seconds=ahead))) == expected


def test_time_runs_on_from_what_was_seen(world: World) -> None:
    ends = world.spoiled(lambda s: s["predicate"].update(expiresAt="2026-12-01T00:02:00Z"))
    assert code(world, ends, Memory()) == ""
    assert code(world, ends, Memory(last_seen=NOW + timedelta(seconds=121))) == "EXPIRED"


def test_a_policy_that_expired_before_what_was_seen(world: World) -> None:
    change = ('expires = "2027-03-01T00:00:00Z"', 'expires = "2026-12-01T00:01:00Z"')
    assert code(world, world.payload(), Memory(last_seen=NOW + timedelta(seconds=61)), change) == "POLICY_EXPIRED"


def test_an_audit_asks_no_clock_and_still_minds_serials(world: World) -> None:
    policy, late = world.policy(), Memory(last_seen=NOW + timedelta(days=9))
    (fine,) = verify.verify_set([world.line()], policy, NOW, audit=True, state=late)
    memory = seen(certified(world, 5), last_seen=late.last_seen)
    (old,) = verify.verify_set([world.line()], policy, NOW, audit=True, state=memory)
    assert isinstance(fine, verify.Accepted)
    assert isinstance(old, verify.Refused)
    assert old.code == "ROLLBACK"


def accepted(world: World, policy: Policy, payload: bytes) -> list[verify.Accepted]:
    found = verify.verify_set([world.line(payload)], policy, world.now)
    return [one for one in found if isinstance(one, verify.Accepted)]


def test_remembering_keeps_the_highest_of_everything(world: World) -> None:
    policy, new = world.policy(), certified(world, 5)
    memory = state.remember(Memory(policy_version=3), policy, NOW, accepted(world, policy, new))
    assert (memory.policy_version, memory.last_seen) == (7, NOW)
    assert list(memory.certificates.values()) == [Seen(5, sha(new))]
    old = certified(world, 4)
    pinned = world.policy(pin(old))
    again = state.remember(memory, pinned, NOW - timedelta(seconds=9), accepted(world, pinned, old))
    assert again == memory


@pytest.mark.parametrize("older", ["certificate", "policy", "twin"])
def test_what_another_process_saw_meanwhile_refuses(world: World, older: str) -> None:
    policy = world.policy()
    memory = {
        "certificate": seen(certified(world, 2)),
        "policy": Memory(policy_version=8),
        "twin": seen(certified(world, 1, seed=8)),
    }[older]
    with pytest.raises(CertificateRefused) as caught:
        state.remember(memory, policy, NOW, accepted(world, policy, world.payload()))
    assert caught.value.refusal_code in {"ROLLBACK", "POLICY_ROLLBACK", "EQUIVOCATION"}


@pytest.mark.parametrize("version", [3, 4])
def test_an_index_that_was_overtaken_meanwhile_is_not_remembered(world: World, version: int) -> None:
    (one,) = accepted(world, world.policy(), world.payload())
    held = replace(one, index=parse_index(index_of(one.name, version=version)))
    memory = Memory(indexes={"acme": Seen(4, "a" * 64)})
    with pytest.raises(CertificateRefused) as caught:
        state.remember(memory, world.policy(), NOW, [held])
    assert caught.value.refusal_code == {3: "INDEX_ROLLBACK", 4: "EQUIVOCATION"}[version]


WORLD = World()
PAYLOADS = [certified(WORLD, serial, seed=seed) for serial in (1, 2, 3) for seed in (7, 8)]
LINES = [WORLD.line(payload) for payload in PAYLOADS] + [WORLD.line(WORLD.plan(PAYLOADS[0])), b"{}"]
TRUSTED = WORLD.policy()


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(len(LINES))), st.sampled_from([Memory(), seen(PAYLOADS[0]), seen(PAYLOADS[2])]))
def test_the_order_of_lines_never_matters(order: list[int], memory: Memory) -> None:
    def judged(lines: list[bytes]) -> dict[str, str]:
        outcomes = verify.verify_set(lines, TRUSTED, NOW, state=memory)
        return {one.name: getattr(one, "code", "") for one in outcomes}

    assert judged([LINES[index] for index in order]) == judged(LINES)


@settings(max_examples=15, deadline=None)
@given(st.permutations([1, 2, 3, 4]), st.permutations([1, 2, 3, 4]))
def test_the_order_of_remembering_never_matters(first: list[int], second: list[int]) -> None:
    found = {n: accepted(WORLD, TRUSTED, certified(WORLD, n)) for n in first}

    def remembered(order: list[int]) -> Memory:
        every = [one for n in order for one in found[n]]
        return state.remember(Memory(), TRUSTED, NOW, every)

    assert remembered(first) == remembered(second)
    assert next(iter(remembered(first).certificates.values())).number == max(first)
