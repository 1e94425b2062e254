"""An index at its edges: the order it is written in, what it calls its subject, and how it answers for one thing."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import index, statement
from pytest_frt.certs.index import INDEX_TYPE, Index, Revoked, parse_index, parse_statement
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW
from tests.certs.test_index import index_of

if TYPE_CHECKING:
    from tests.certs.conftest import World

ONE, TWO, THREE = "a" * 64, "b" * 64, "c" * 64
WITHDRAWN = (
    Revoked("tree", TWO, "second tree"),
    Revoked("payload", THREE, "a payload"),
    Revoked("tree", ONE, "first tree"),
    Revoked("key", THREE, "a key"),
)


def digest_of(*current: str) -> str:
    return hashlib.sha256(b"frt-index-v1\0" + "".join(f"{one}\n" for one in current).encode()).hexdigest()


def refused(payload: bytes) -> CertificateRefused:
    with pytest.raises(CertificateRefused) as caught:
        parse_index(payload)
    return caught.value


def test_an_index_is_written_the_same_in_whatever_order_it_is_given() -> None:
    payload = index_of(TWO, ONE, TWO, revoked=WITHDRAWN)
    assert payload == index_of(ONE, TWO, revoked=(*reversed(WITHDRAWN), WITHDRAWN[0]))
    document = json.loads(payload)
    assert document["predicateType"] == INDEX_TYPE
    assert document["subject"] == [{"name": "index", "digest": {"sha256": digest_of(ONE, TWO)}}]
    assert document["predicate"] == {
        "crit": [],
        "issuer": "acme",
        "version": 3,
        "issuedAt": "2026-11-30T00:00:00Z",
        "expires": "2026-12-14T00:00:00Z",
        "current": [ONE, TWO],
        "revoked": [
            {"kind": "key", "digest": {"sha256": THREE}, "reason": "a key"},
            {"kind": "payload", "digest": {"sha256": THREE}, "reason": "a payload"},
            {"kind": "tree", "digest": {"sha256": ONE}, "reason": "first tree"},
            {"kind": "tree", "digest": {"sha256": TWO}, "reason": "second tree"},
        ],
    }


def test_every_member_is_read_back() -> None:
    payload = index_of(ONE, revoked=WITHDRAWN[:1])
    moments = NOW - timedelta(days=1), NOW + timedelta(days=13)
    name = hashlib.sha256(payload).hexdigest()
    assert parse_index(payload) == Index("acme", 3, *moments, (ONE,), WITHDRAWN[:1], name)
    assert parse_index(index_of(version=1)).version == 1


def test_a_reason_is_that_of_the_kind_and_the_digest() -> None:
    read = parse_index(index_of(revoked=WITHDRAWN))
    assert [read.reason(one.kind, one.sha256) for one in WITHDRAWN] == [one.reason for one in WITHDRAWN]
    assert [read.reason(*one) for one in (("payload", ONE), ("tree", THREE), ("key", TWO))] == [None] * 3


def test_a_name_that_the_caller_has_taken_is_kept_and_none_is_taken_of_the_bytes(world: World) -> None:
    for payload in (index_of(ONE), world.payload()):
        assert parse_statement(payload, TWO).payload_sha256 == TWO
        assert parse_statement(payload).payload_sha256 == hashlib.sha256(payload).hexdigest()


def test_a_certificate_is_judged_by_its_own_floors_and_an_index_has_none(world: World) -> None:
    ends = {"issuedAt": "2026-12-01T00:00:00Z", "expiresAt": "2026-12-01T00:00:00Z"}
    spoiled = world.spoiled(lambda s: s["predicate"].update(ends))
    assert isinstance(parse_statement(spoiled), statement.CellCertificate)
    with pytest.raises(CertificateRefused) as caught:
        index.check_statement(spoiled)
    assert caught.value.refusal_code == "LIFETIME"
    assert isinstance(index.check_statement(index_of(ONE)), Index)
    assert isinstance(index.check_statement(world.payload()), statement.CellCertificate)


@pytest.mark.parametrize("member", ["issuer", "version", "issuedAt", "expires", "current", "revoked"])
def test_what_restricts_an_index_may_be_any_of_its_members_and_no_other(world: World, member: str) -> None:
    named = world.spoiled(lambda s: s["predicate"].update(crit=[member]), index_of(ONE))
    assert parse_index(named).current == (ONE,)
    missing = world.spoiled(lambda s: s["predicate"].pop(member), index_of(ONE))
    assert refused(missing).refusal_code == "SCHEMA"
    assert refused(world.spoiled(lambda s: s["predicate"].update(crit=["crit"]), index_of(ONE))).refusal_code == "CRIT"


def test_the_same_digest_may_be_withdrawn_as_different_kinds_and_current_as_no_payload() -> None:
    read = parse_index(index_of(THREE, revoked=(Revoked("key", THREE, "x"), Revoked("tree", THREE, "x"))))
    assert (len(read.revoked), read.current) == (2, (THREE,))


def test_one_thing_with_two_reasons_is_refused() -> None:
    with pytest.raises(CertificateRefused, match=r"predicate\.revoked is not an array with each thing once"):
        index_of(revoked=(Revoked("key", ONE, "lost"), Revoked("key", ONE, "stolen")))


def test_what_is_current_and_revoked_is_named_and_the_first_of_several() -> None:
    both = (Revoked("payload", TWO, "x"), Revoked("payload", ONE, "x"), Revoked("payload", THREE, "x"))
    with pytest.raises(CertificateRefused, match=f"certificate {ONE} is both current and revoked") as caught:
        index_of(ONE, TWO, revoked=both)
    assert caught.value.refusal_code == "SCHEMA"


def test_lists_out_of_order_and_subjects_of_other_lists_are_refused_with_their_place(world: World) -> None:
    good = index_of(ONE, TWO)
    turned = refused(world.spoiled(lambda s: s["predicate"]["current"].reverse(), good))
    assert turned.message == "statement.predicate.current is not an ascending array with each digest once"
    twice = refused(world.spoiled(lambda s: s["predicate"]["current"].append(TWO), good))
    assert twice.message == turned.message
    document, said = json.loads(good), "statement.subject is not one subject with the digest of what is current"
    for subject in ([], [{"name": "index", "digest": {"sha256": digest_of(ONE)}}], 2 * document["subject"]):
        assert refused(json.dumps(document | {"subject": subject}).encode()).message == said


def test_a_certificate_is_no_index_and_says_of_what_type_one_is(world: World) -> None:
    found = refused(world.payload())
    said = f"statement.predicateType is not exactly {INDEX_TYPE}"
    assert (found.refusal_code, found.message) == ("PREDICATE_TYPE", said)


def test_a_key_is_named_by_its_raw_bytes(world: World) -> None:
    assert index.key_digest(world.bob.public) == hashlib.sha256(world.bob.public.raw).hexdigest()
