"""Indexes that contradict one another in any order, and a revoked key beside a workflow, whose owner counts on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs.index import Index, Revoked, key_digest, parse_index
from pytest_frt.certs.policy_types import KeylessSigner
from pytest_frt.certs.standing import Held, Indexes
from pytest_frt.certs.statement import parse_payload
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW
from tests.certs.test_index import REQUIRED, index_of, sha

if TYPE_CHECKING:
    from tests.certs.conftest import World

WORKFLOW = KeylessSigner("ci")


def check(world: World, threshold: int, *revoked: str) -> Index | None:
    """Check a certificate that alice, bob and a workflow signed, with the keys of these owners revoked by an index."""
    policy = world.policy(REQUIRED)
    owners = frozenset({"alice", "bob", "ci"})
    rule = replace(policy.rules[0], signers=owners, threshold=threshold)
    things = tuple(Revoked("key", key_digest(one.public), "stolen") for one in policy.keys if one.owner in revoked)
    index = parse_index(index_of(sha(world.payload()), revoked=things))
    indexes = Indexes([Held("here", index, owners)], policy, None, NOW)
    return indexes.check(parse_payload(world.payload()), (*policy.keys, WORKFLOW), (rule,))


@pytest.mark.parametrize(
    ("threshold", "revoked"),
    [(3, ()), (2, ("alice",)), (1, ("alice", "bob"))],
    ids=["none revoked", "two are enough", "the workflow is enough"],
)
def test_owners_without_a_revoked_key_count_on(world: World, threshold: int, revoked: tuple[str, ...]) -> None:
    found = check(world, threshold, *revoked)
    assert found is not None
    assert len(found.revoked) == len(revoked)


@pytest.mark.parametrize(("threshold", "revoked"), [(3, ("alice",)), (2, ("alice", "bob"))], ids=["one", "both"])
def test_too_few_owners_without_a_revoked_key(world: World, threshold: int, revoked: tuple[str, ...]) -> None:
    with pytest.raises(CertificateRefused) as caught:
        check(world, threshold, *revoked)
    assert caught.value.refusal_code == "REVOKED"
    told = {one.owner for one in world.policy().keys if f"{one.public.keyid} (stolen)" in caught.value.message}
    assert told == set(revoked)


@pytest.mark.parametrize("order", list(itertools.permutations("abcn")), ids="".join)
def test_each_index_has_one_code_in_whatever_order_they_lie(world: World, order: tuple[str, ...]) -> None:
    texts = {one: index_of(sha(one.encode())) for one in "abc"} | {"n": index_of(version=4)}
    found = {one: Held(one, parse_index(texts[one]), frozenset({"alice"})) for one in order}

    def said(names: set[str], about: str) -> str:
        indexes = Indexes([held for one, held in found.items() if one in names], world.policy(), None, NOW)
        with pytest.raises(CertificateRefused) as caught:
            indexes.check_standing(found[about])
        return f"{caught.value.refusal_code} {caught.value.message}"

    assert said({*"abcn"}, "b").startswith("INDEX_ROLLBACK ")
    assert "version 4 is here too" in said({*"abcn"}, "b")
    twins = said({*"abc"}, "b")
    assert twins.startswith("EQUIVOCATION ")
    assert min(found["a"].index.payload_sha256, found["c"].index.payload_sha256) in twins
