"""A plan stands only on accepted members that belong together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import statement, verify
from pytest_frt.contracts.record import Record

if TYPE_CHECKING:
    from tests.certs.conftest import World

MEMBER_SPOILS: dict[str, Callable[[Record], Record]] = {
    "another device": lambda r: replace(r, device=replace(r.device, threads=4)),
    "another host configuration": lambda r: replace(r, host=replace(r.host, config_digest="b" * 64)),
    "another source of the class": lambda r: replace(r, host=replace(r.host, module_source={"ToyMLP": "b" * 64})),
    "a class the plan does not know": lambda r: replace(r, host=replace(r.host, module_source={"Other": "b" * 64})),
    "another torch": lambda r: replace(r, software={"torch": "2.12.0"}),
    "software the plan does not state": lambda r: replace(r, software=r.software | {"triton": "3"}),
}


def test_round_trip(world: World) -> None:
    payload = world.plan(world.payload(), dropped={"x": "refused"}, seed=9)
    parsed = statement.parse_payload(payload)
    assert isinstance(parsed, statement.PlanCertificate)
    assert (parsed.plan.seed, parsed.plan.dropped, len(parsed.plan.members)) == (9, {"x": "refused"}, 1)


@pytest.mark.parametrize("spoil", MEMBER_SPOILS.values(), ids=MEMBER_SPOILS)
def test_a_member_that_does_not_belong(world: World, spoil: Callable[[Record], Record]) -> None:
    member = world.payload(spoil(world.record))
    cell, plan = world.verify(world.line(member), world.line(world.plan(member)))
    assert isinstance(cell, verify.Accepted)
    assert not cell.activates
    assert plan.code == "PLAN_MEMBER"


def test_a_refused_member_refuses_the_plan(world: World) -> None:
    member = world.payload()
    deny = (("deny = []", f'deny = [{{ tree = "{world.record.kernel.tree_digest}", reason = "leaks" }}]'),)
    cell, plan = world.verify(world.line(member), world.line(world.plan(member)), changes=deny)
    assert (cell.code, plan.code) == ("DENIED", "PLAN_MEMBER")


def test_a_denied_member_denies_the_plan_by_name(world: World) -> None:
    member = world.payload()
    name = hashlib.sha256(member).hexdigest()
    deny = (("deny = []", f'deny = [{{ payload = "{name}", reason = "leaks" }}]'),)
    (plan,) = world.verify(world.line(world.plan(member)), changes=deny)
    assert (plan.code, "leaks" in plan.message) == ("DENIED", True)


def test_two_members_at_one_place(world: World) -> None:
    key = world.record.key
    other = replace(key, cell=replace(key.cell, impl="another"))
    one, two = world.payload(), world.payload(replace(world.record, key=other))
    *_, plan = world.verify(world.line(one), world.line(two), world.line(world.plan(one, two)))
    assert (plan.code, "model.layers.0.mlp" in plan.message) == ("PLAN_MEMBER", True)


def spoil_subject(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["subject"][0].update(changes)


PLAN_SPOILS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "member renamed": (spoil_subject(name="cell/a-b-toy-c-cpu@eager.decode.real.hot"), "PLAN_MEMBER"),
    "member of another host": (spoil_subject(name="cell/a-b-other-c-cpu@eager.decode.real.hot"), "SCHEMA"),
    "no record key": (spoil_subject(name="cell/whatever"), "NAME"),
    "another digest": (spoil_subject(digest={"sha256": "c" * 64}), "PLAN_MEMBER"),
    "one member under two names": (
        lambda document: document["subject"].append(
            document["subject"][0] | {"name": "cell/a-b-toy-c-cpu@eager.decode.real.hot"}
        ),
        "SCHEMA",
    ),
    "no member": (lambda document: document.update(subject=[]), "SCHEMA"),
    "failed": (lambda document: document["predicate"].update(result="FAILED"), "RESULT"),
    "a fallback": (lambda document: document["predicate"]["gates"][1].update(measured="1", samples=["1"]), "GATE_FAIL"),
    "called a cell": (lambda document: document.update(predicateType=statement.CELL_TYPE), "ROLE_FILE"),
}


@pytest.mark.parametrize(("spoil", "code"), PLAN_SPOILS.values(), ids=PLAN_SPOILS)
def test_spoiled_plan(world: World, spoil: Callable[[dict[str, Any]], object], code: str) -> None:
    member = world.payload()
    spoiled = world.spoiled(spoil, world.plan(member))
    *_, plan = world.verify(world.line(member), world.line(spoiled))
    assert plan.code == code


@pytest.mark.parametrize(
    "change", [('hosts = ["toy"]', 'hosts = ["other"]'), ('devices = ["cpu"]', 'devices = ["h200"]')]
)
def test_a_plan_needs_a_rule_for_its_host_and_device(world: World, change: tuple[str, str]) -> None:
    member = world.payload()
    lines = world.line(member), world.line(world.plan(member))
    *_, plan = world.verify(*lines, changes=(change,))
    assert plan.code == "NO_RULE"


def test_a_plan_may_replace_classes_that_a_member_does_not(world: World) -> None:
    member = world.payload()
    wider = replace(world.record.host, module_source=world.record.host.module_source | {"Other": "b" * 64})
    cell, plan = world.verify(world.line(member), world.line(world.plan(member, host=wider)))
    assert isinstance(plan, verify.Accepted)
    assert cell.activates


def test_a_plan_is_no_member_of_a_plan(world: World) -> None:
    inner = world.plan(world.payload())
    digest = {"sha256": hashlib.sha256(inner).hexdigest()}
    outer = world.spoiled(spoil_subject(digest=digest), world.plan(world.payload(), seed=9))
    _, first, second = world.verify(world.line(world.payload()), world.line(inner), world.line(outer))
    assert isinstance(first, verify.Accepted)
    assert second.code == "PLAN_MEMBER"


def test_payload_is_canonical_json(world: World) -> None:
    payload = world.payload()
    assert (
        json.dumps(json.loads(payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == payload
    )
