"""Commits that are denied and those beside them, rules of several patterns, and plans whose members need all of it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import verify
from pytest_frt.certs.authority import stated
from pytest_frt.certs.policy_types import Require
from pytest_frt.certs.statement import parse_payload
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW
from tests.certs.test_index import OPTIONAL, index_of, sha

if TYPE_CHECKING:
    from tests.certs.conftest import World

COMMIT, OTHER, REPO = "a" * 40, "b" * 40, "acme/frt-cpu"


def code(world: World, payload: bytes, *changes: tuple[str, str]) -> str:
    """Return the code of one certificate."""
    (outcome,) = world.verify(world.line(payload), changes=changes)
    return getattr(outcome, "code", "")


def denied(world: World, revision: str, entry: str) -> str:
    """Return the code of a kernel of this revision under a policy that denies one thing."""
    kernel = replace(world.record.kernel, revision=revision)
    payload = world.payload(replace(world.record, kernel=kernel))
    return code(world, payload, ("deny = []", f'deny = [{{ {entry}, reason = "leaks" }}]'))


DENIALS = {
    "its commit": (COMMIT, f'repo = "{REPO}", revision = "{COMMIT}"', "DENIED"),
    "another commit": (COMMIT, f'repo = "{REPO}", revision = "{OTHER}"', ""),
    "the commit of another repo": (COMMIT, f'repo = "acme/frt", revision = "{COMMIT}"', ""),
    "local builds, and it has a commit": (COMMIT, f'repo = "{REPO}", revision = "local"', ""),
    "local builds, and it is one": ("local", f'repo = "{REPO}", revision = "local"', "DENIED"),
    "local builds, and it names nothing": ("", f'repo = "{REPO}", revision = "local"', "DENIED"),
    "local builds of another repo": ("", 'repo = "acme/frt", revision = "local"', ""),
    "a commit, and it is a local build": ("local", f'repo = "{REPO}", revision = "{COMMIT}"', ""),
    "another tree": (COMMIT, f'tree = "{"0" * 64}"', ""),
    "another payload": (COMMIT, f'payload = "{"0" * 64}"', ""),
}


@pytest.mark.parametrize(("revision", "entry", "expected"), DENIALS.values(), ids=DENIALS)
def test_denied_kernel(world: World, revision: str, entry: str, expected: str) -> None:
    assert denied(world, revision, entry) == expected


def test_each_entry_of_the_deny_list_counts(world: World) -> None:
    tree = world.record.kernel.tree_digest
    for entries in (("0" * 64, tree), (tree, "0" * 64)):
        listed = ", ".join(f'{{ tree = "{one}", reason = "leaks" }}' for one in entries)
        assert code(world, world.payload(), ("deny = []", f"deny = [{listed}]")) == "DENIED"


@pytest.mark.parametrize("kind", ["payload", "tree"])
def test_an_index_is_denied_by_its_payload(world: World, kind: str) -> None:
    index = index_of("a" * 64)
    deny = ("deny = []", f'deny = [{{ {kind} = "{sha(index)}", reason = "leaks" }}]')
    outcomes = {one.name: getattr(one, "code", "") for one in world.verify(world.line(index), changes=(deny,))}
    assert outcomes == ({sha(index): "DENIED"} if kind == "payload" else {})


LATER = NOW + timedelta(days=9)
INDEXES: dict[str, tuple[dict[str, Any], str, str]] = {
    "of an issuer without a rule": ({"issuer": "other"}, "alice", "NO_RULE"),
    "of a signer that no rule lists": ({}, "bob", "THRESHOLD"),
    "from the future": ({"issued_at": NOW + timedelta(days=2), "expires": LATER}, "alice", "NOT_YET"),
}


@pytest.mark.parametrize(("changes", "signer", "expected"), INDEXES.values(), ids=INDEXES)
def test_index_that_does_not_count(world: World, changes: dict[str, Any], signer: str, expected: str) -> None:
    index = index_of("a" * 64, **changes)
    key = {"alice": world.alice, "bob": world.bob}[signer]
    (outcome,) = world.verify(world.line(index, key), changes=(OPTIONAL,))
    assert isinstance(outcome, verify.Refused)
    assert outcome.code == expected


PATTERNS = {  # of a rule: what the certificate has, and something else
    "structures": ("decoder_ffn@1", "linear_proj@1"),
    "kernels": ("acme/*", "other/*"),
    "hosts": ("toy", "other"),
    "devices": ("cpu", "h200"),
    "schemes": ("w16a32", "w8a8"),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_one_pattern_of_several_is_enough_and_each_list_counts(world: World, name: str) -> None:
    fits, other = PATTERNS[name]
    line = f'{name} = ["{fits}"]'
    for listed, expected in ((f'"{other}", "{fits}"', ""), (f'"{fits}", "{other}"', ""), (f'"{other}"', "NO_RULE")):
        assert code(world, world.payload(), (line, f"{name} = [{listed}]")) == expected


@pytest.mark.parametrize("other", ["decoder_ffn@2", "decoder_ffn@10", "decoder_ffn"])
def test_rule_is_about_one_version_of_a_structure(world: World, other: str) -> None:
    assert code(world, world.payload(), ('structures = ["decoder_ffn@1"]', f'structures = ["{other}"]')) == "NO_RULE"


@pytest.mark.parametrize(
    ("devices", "expected"), [('"cpu"', "NO_RULE"), ('"h200"', "NO_RULE"), ('"cpu", "h200"', "PLAN_MEMBER")]
)
def test_rule_of_a_plan_is_about_the_devices_of_all_its_members(world: World, devices: str, expected: str) -> None:
    member = {"name": "cell/a-b-toy-c-h200@eager.decode.real.hot", "digest": {"sha256": "c" * 64}}
    plan = world.spoiled(lambda found: found["subject"].append(member), world.plan(world.payload()))
    assert code(world, plan, ('devices = ["cpu"]', f"devices = [{devices}]")) == expected


def test_rules_that_let_it_in_are_those_that_are_met(world: World) -> None:
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    bobs = rule.replace('signers = ["alice"]', 'signers = ["bob"]').replace('value = "0.999"', 'value = "0.99999"')
    world.policy_text += bobs
    assert code(world, world.payload()) == ""  # the floor of bob's rule is none of alice's
    (both,) = {getattr(one, "code", "") for one in world.verify(world.line(), world.line(key=world.bob))}
    assert both == "GATE_FLOOR"


def test_too_few_owners_are_told_who_signed_and_who_may(world: World) -> None:
    two = ('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2')
    (outcome,) = world.verify(world.line(), changes=(two,))
    assert isinstance(outcome, verify.Refused)
    assert (outcome.code, outcome.message) == (
        "THRESHOLD",
        "1 of 2 needed owners signed (alice signed; alice, bob may)",
    )


@pytest.mark.parametrize(
    ("weights", "allowed", "expected"),
    [
        ("trained", "false", ""),
        ("trained", "true", ""),
        ("random", "false", "SYNTHETIC"),
        ("random", "true", ""),
    ],
)
def test_weights_that_are_not_trained_need_a_policy_that_takes_them(
    world: World, weights: str, allowed: str, expected: str
) -> None:
    host = replace(world.record.host, weights=weights, checkpoint="synthetic(0, normal)")
    if weights == "trained":
        host = world.record.host
    payload = world.payload(replace(world.record, host=host))
    assert code(world, payload, ("skew_s = 300", f"allow_synthetic = {allowed}")) == expected


DEMANDS = {
    "the class of the host": (Require((), (), ("class",)), ""),
    "its configuration": (Require((), (), ("configDigest",)), ""),
    "its sources": (Require((), (), ("moduleSourceDigest",)), ""),
    "a library": (Require((), (), ("transformers",)), ""),
    "a library that it does not state": (Require((), (), ("transformers", "diffusers")), "HOST_MISSING"),
    "a fact of the device": (Require((), ("threads", "isa"), ()), ""),
    "what every object has": (Require((), ("name", "__class__"), ()), "DEVICE_MISSING"),
    "software": (Require(("torch", "kernels"), (), ()), ""),
    "software that it does not state": (Require(("torch", "triton"), (), ()), "SOFTWARE_MISSING"),
}


@pytest.mark.parametrize("plan", [False, True], ids=["cell", "plan"])
@pytest.mark.parametrize(("demand", "expected"), DEMANDS.values(), ids=DEMANDS)
def test_cells_and_plans_state_what_is_demanded(world: World, demand: Require, expected: str, *, plan: bool) -> None:
    certificate = parse_payload(world.plan(world.payload()) if plan else world.payload())
    policy = replace(world.policy(), require=demand)
    with pytest.raises(CertificateRefused) if expected else nullcontext() as caught:
        stated(certificate, policy)
    assert (caught.value.refusal_code if caught else "") == expected
