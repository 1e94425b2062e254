"""An index says what is current and what is withdrawn; hiding, freezing or forging it gains nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import keys, store, verify
from pytest_frt.certs.index import Revoked, build_index, key_digest, parse_index
from pytest_frt.certs.state import Memory, Seen
from pytest_frt.errors import CertificateRefused
from tests.certs.conftest import NOW, RECORD

if TYPE_CHECKING:
    from tests.certs.conftest import World

REQUIRED = ("deny = []", "index = { required = true }")
OPTIONAL = ("deny = []", "index = { required = false }")
TREE = RECORD.kernel.tree_digest


def index_of(*current: str, version: int = 3, revoked: tuple[Revoked, ...] = (), **changes: Any) -> bytes:
    terms = {"issuer": "acme", "issued_at": NOW - timedelta(days=1), "expires": NOW + timedelta(days=13)} | changes
    return build_index(version=version, current=current, revoked=revoked, **terms)


def sha(payload: bytes) -> str:
    return hashlib.sha256(payload).hexdigest()


def codes(
    world: World, *indexes: bytes, change: tuple[str, str] = REQUIRED, memory: Memory | None = None
) -> dict[str, str]:
    """Return the codes by payload digest of the world's certificate and of indexes signed by alice."""
    lines = [world.line(), *(world.line(index) for index in indexes)]
    outcomes = verify.verify_set(lines, world.policy(change), world.now, state=memory)
    return {one.name: getattr(one, "code", "") for one in outcomes}


def listed(world: World, **changes: Any) -> bytes:
    return index_of(sha(world.payload()), **changes)


def code(world: World, *indexes: bytes, change: tuple[str, str] = REQUIRED, memory: Memory | None = None) -> str:
    return codes(world, *indexes, change=change, memory=memory)[sha(world.payload())]


def test_a_listed_certificate_is_accepted_and_knows_its_index(world: World) -> None:
    index = listed(world)
    lines = [world.line(index), world.line()]
    (one,) = verify.verify_set(lines, world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Accepted)
    assert one.index == parse_index(index)


def test_r4_not_listed(world: World) -> None:
    assert code(world, index_of("a" * 64)) == "NOT_IN_INDEX"
    assert code(world, index_of("a" * 64), change=OPTIONAL) == ""


def test_r4b_the_index_is_hidden(world: World) -> None:
    assert code(world) == "NOT_IN_INDEX"
    assert code(world, change=OPTIONAL) == ""


def test_r4c_an_index_of_another_issuer(world: World) -> None:
    other = listed(world, issuer="other")
    assert codes(world, other) == {sha(world.payload()): "NOT_IN_INDEX", sha(other): "NO_RULE"}


def test_only_the_issuer_that_is_named_needs_an_index(world: World) -> None:
    named = ("deny = []", "index = { required = false, issuers = { acme = true } }")
    spared = ("deny = []", "index = { required = true, issuers = { acme = false } }")
    assert (code(world, change=named), code(world, change=spared)) == ("NOT_IN_INDEX", "")


def withdrawals(world: World) -> dict[str, Revoked]:
    return {
        "payload": Revoked("payload", sha(world.payload()), "out-of-bounds read"),
        "tree": Revoked("tree", TREE, "out-of-bounds read"),
        "key": Revoked("key", key_digest(world.alice.public), "out-of-bounds read"),
    }


@pytest.mark.parametrize("change", [REQUIRED, OPTIONAL], ids=["required", "optional"])
@pytest.mark.parametrize("kind", ["payload", "tree", "key"])
def test_r5_revoked(world: World, kind: str, change: tuple[str, str]) -> None:
    current = () if kind == "payload" else (sha(world.payload()),)
    index = index_of(*current, revoked=(withdrawals(world)[kind],))
    lines = [world.line(), world.line(index)]
    (one,) = verify.verify_set(lines, world.policy(change), world.now)
    assert isinstance(one, verify.Refused)
    assert (one.code, "out-of-bounds read" in one.message) == ("REVOKED", True)


def test_r5b_an_expired_index_still_revokes(world: World) -> None:
    index = index_of(revoked=(withdrawals(world)["tree"],), expires=NOW - timedelta(seconds=1))
    assert codes(world, index, change=OPTIONAL) == {sha(world.payload()): "REVOKED", sha(index): "INDEX_EXPIRED"}


def test_r5c_a_later_index_takes_a_withdrawal_back(world: World) -> None:
    wrong, mended = listed(world, revoked=(withdrawals(world)["tree"],)), listed(world, version=4)
    assert codes(world, wrong, mended) == {sha(world.payload()): "", sha(wrong): "INDEX_ROLLBACK"}


def test_r5d_a_revoked_key_leaves_the_other_owners(world: World) -> None:
    world.policy_text = world.policy_text.replace('signers = ["alice"]', 'signers = ["alice", "bob"]')
    index = listed(world, revoked=(withdrawals(world)["key"],))
    lines = [world.line(), world.line(key=world.bob), world.line(index, world.bob)]
    (one,) = verify.verify_set(lines, world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Accepted)
    world.policy_text = world.policy_text.replace("threshold = 1", "threshold = 2")
    lines.append(world.line(index))
    (one,) = verify.verify_set(lines, world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Refused)
    assert one.code == "REVOKED"


def test_r5e_a_revoked_member_refuses_its_plan(world: World) -> None:
    member = world.payload()
    plan = world.plan(member)
    index = index_of(sha(plan), revoked=(withdrawals(world)["payload"],))
    lines = [world.line(member), world.line(plan), world.line(index)]
    outcomes = verify.verify_set(lines, world.policy(REQUIRED), world.now)
    assert [one.code for one in outcomes if isinstance(one, verify.Refused)] == ["REVOKED", "REVOKED"]
    alone = verify.verify_set([world.line(plan), world.line(index)], world.policy(REQUIRED), world.now)
    assert [one.code for one in alone if isinstance(one, verify.Refused)] == ["REVOKED"]


def test_r6_expired(world: World) -> None:
    index = listed(world, expires=NOW - timedelta(seconds=1))
    assert codes(world, index) == {sha(world.payload()): "INDEX_EXPIRED", sha(index): "INDEX_EXPIRED"}
    assert code(world, index, change=OPTIONAL) == ""
    assert code(world, listed(world, expires=NOW)) == ""


def test_r7_version_lower_than_seen(world: World) -> None:
    index, memory = listed(world, version=3), Memory(indexes={"acme": Seen(4, "a" * 64)})
    assert codes(world, index, memory=memory) == dict.fromkeys((sha(world.payload()), sha(index)), "INDEX_ROLLBACK")
    assert code(world, index, change=OPTIONAL, memory=memory) == ""
    assert code(world, listed(world, version=5), memory=memory) == ""


def test_r7b_another_index_of_the_version_that_was_seen(world: World) -> None:
    index, memory = listed(world), Memory(indexes={"acme": Seen(3, "a" * 64)})
    assert code(world, index, memory=memory) == "EQUIVOCATION"
    assert code(world, index, memory=Memory(indexes={"acme": Seen(3, sha(index))})) == ""


def test_r7c_an_older_index_beside_the_newer_one_lists_nothing(world: World) -> None:
    old, new = listed(world, version=3), index_of("a" * 64, version=4)
    assert codes(world, old, new) == {sha(world.payload()): "NOT_IN_INDEX", sha(old): "INDEX_ROLLBACK"}


def test_two_indexes_of_one_version_are_both_refused(world: World) -> None:
    one, other = listed(world), index_of("a" * 64)
    assert codes(world, one, other) == dict.fromkeys((sha(world.payload()), sha(one), sha(other)), "EQUIVOCATION")


def test_versions_of_another_issuer_do_not_count(world: World) -> None:
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    world.policy_text += rule.replace('issuer = "acme"', 'issuer = "other"')
    theirs = [index_of("a" * 64, issuer="other", version=version) for version in (3, 9)]
    mine = listed(world)
    assert codes(world, theirs[1], mine) == {sha(world.payload()): ""}
    assert codes(world, theirs[0], mine) == {sha(world.payload()): ""}


def test_an_index_needs_the_threshold_of_the_rule(world: World) -> None:
    world.policy_text = world.policy_text.replace(
        'signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2'
    )
    index = listed(world)
    lines = [world.line(), world.line(key=world.bob), world.line(index)]
    outcomes = verify.verify_set(lines, world.policy(REQUIRED), world.now)
    assert [getattr(one, "code", "") for one in outcomes] == ["NOT_IN_INDEX", "THRESHOLD"]
    (one,) = verify.verify_set([*lines, world.line(index, world.bob)], world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Accepted)


@pytest.mark.parametrize("gone", [False, True], ids=["all keys live", "a key of the stricter rule revoked"])
def test_one_of_several_rules_is_enough(world: World, *, gone: bool) -> None:
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    world.policy_text += rule.replace('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2')
    bob = Revoked("key", key_digest(world.bob.public), "lost")
    index = world.line(listed(world, revoked=(bob,) if gone else ()))
    (one,) = verify.verify_set([world.line(), world.line(key=world.bob), index], world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Accepted)


def test_owners_of_another_rule_of_the_issuer_list_nothing(world: World) -> None:
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    world.policy_text += rule.replace('"alice"', '"bob"').replace("decoder_ffn@1", "linear_proj@1")
    lines = [world.line(), world.line(listed(world), world.bob)]
    (one,) = verify.verify_set(lines, world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Refused)
    assert one.code == "NOT_IN_INDEX"


FORGED: dict[str, tuple[Callable[[World], list[bytes]], str]] = {
    "unknown key": (lambda w: [w.line(listed(w), keys.generate())], "SIG_NONE"),
    "signer outside the rule": (lambda w: [w.line(listed(w), w.bob)], "THRESHOLD"),
    "issued in the future": (lambda w: [w.line(listed(w, issued_at=NOW + timedelta(days=1)))], "NOT_YET"),
    "lives too long": (lambda w: [w.line(listed(w, expires=NOW + timedelta(days=200)))], "LIFETIME"),
    "ends before it begins": (lambda w: [w.line(listed(w, expires=NOW - timedelta(days=2)))], "LIFETIME"),
    "issued before the key's window": (
        lambda w: [w.line(listed(w, issued_at=NOW - timedelta(days=400), expires=NOW - timedelta(days=390)))],
        "KEY_WINDOW",
    ),
}


@pytest.mark.parametrize(("lines", "expected"), FORGED.values(), ids=FORGED)
def test_an_index_that_does_not_count(world: World, lines: Callable[[World], list[bytes]], expected: str) -> None:
    certificate, index = verify.verify_set([world.line(), *lines(world)], world.policy(REQUIRED), world.now)
    assert isinstance(certificate, verify.Refused)
    assert isinstance(index, verify.Refused)
    assert (certificate.code, index.code) == ("NOT_IN_INDEX", expected)


def test_a_denied_index_does_not_count(world: World) -> None:
    index = listed(world)
    deny = f'deny = [{{ payload = "{sha(index)}", reason = "wrong" }}]\nindex = {{ required = true }}'
    assert codes(world, index, change=("deny = []", deny)) == {
        sha(world.payload()): "NOT_IN_INDEX",
        sha(index): "DENIED",
    }


SPOILED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no crit": (lambda s: s["predicate"].pop("crit"), "CRIT"),
    "unknown crit": (lambda s: s["predicate"].update(crit=["moon"], moon=1), "CRIT"),
    "version 0": (lambda s: s["predicate"].update(version=0), "SCHEMA"),
    "not sorted": (lambda s: s["predicate"]["current"].reverse(), "SCHEMA"),
    "listed twice": (lambda s: s["predicate"]["current"].insert(0, "a" * 64), "SCHEMA"),
    "one added": (lambda s: s["predicate"]["current"].append("c" * 64), "SCHEMA"),
    "short digest": (lambda s: s["predicate"]["current"].append("c" * 63), "DIGEST"),
    "revokes a word": (lambda s: s["predicate"]["revoked"][0].update(kind="repo"), "SCHEMA"),
    "revokes without a reason": (lambda s: s["predicate"]["revoked"][0].pop("reason"), "SCHEMA"),
    "revokes by md5": (lambda s: s["predicate"]["revoked"][0].update(digest={"md5": "a" * 32}), "DIGEST"),
    "revokes twice": (lambda s: s["predicate"]["revoked"].append(s["predicate"]["revoked"][0]), "SCHEMA"),
    "revokes what is current": (
        lambda s: s["predicate"]["revoked"][0].update(kind="payload", digest={"sha256": "a" * 64}), "SCHEMA"),
    "no subject": (lambda s: s.update(subject=[]), "SCHEMA"),
    "two subjects": (lambda s: s["subject"].append(s["subject"][0]), "SCHEMA"),
    "time with an offset": (lambda s: s["predicate"].update(expires="2026-12-14T00:00:00+00:00"), "TIME_FORMAT"),
    "Statement/v0.1": (lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"), "STATEMENT_TYPE"),
    "test-result": (lambda s: s.update(predicateType="https://in-toto.io/attestation/test-result/v0.1"),
                    "PREDICATE_TYPE"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "expected"), SPOILED.values(), ids=SPOILED)
def test_spoiled_index(world: World, spoil: Callable[[dict[str, Any]], object], expected: str) -> None:
    index = index_of("a" * 64, "b" * 64, revoked=(Revoked("tree", TREE, "bad"),))
    (outcome,) = world.verify(world.line(world.spoiled(spoil, index)))
    assert isinstance(outcome, verify.Refused)
    assert outcome.code == expected


def test_what_is_built_reads_back(world: World) -> None:
    revoked = (Revoked("tree", TREE, "x"), Revoked("key", key_digest(world.bob.public), "lost"))
    index = parse_index(index_of("b" * 64, "a" * 64, "a" * 64, revoked=revoked))
    assert index.current == ("a" * 64, "b" * 64)
    assert set(index.revoked) == set(revoked)
    assert parse_index(index_of()).current == ()


def test_a_signer_cannot_state_a_malformed_index() -> None:
    for changes in ({"issuer": "a b"}, {"version": 0}, {"revoked": (Revoked("repo", TREE, "x"),)}):
        with pytest.raises(CertificateRefused):
            index_of(**({"version": 3} | changes))


def test_an_index_lies_beside_the_certificates_it_lists(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "certs" / "deep"
    folder.mkdir(parents=True)
    (folder / f"one{store.CERTIFICATE_SUFFIX}").write_bytes(world.line())
    (tmp_path / "certs" / store.INDEX_NAME).write_bytes(world.line(listed(world)))
    (tmp_path / "certs" / f"old-{store.INDEX_NAME}").write_bytes(b"{}")
    (one,) = verify.verify_paths([tmp_path / "certs"], world.policy(REQUIRED), world.now)
    assert isinstance(one, verify.Accepted)


def test_an_index_is_no_certificate_and_a_certificate_no_index(world: World) -> None:
    swapped = json.loads(world.payload())
    swapped["predicateType"] = json.loads(listed(world))["predicateType"]
    (outcome,) = world.verify(world.line(json.dumps(swapped).encode()))
    assert isinstance(outcome, verify.Refused)
    assert outcome.code == "SCHEMA"
    assert replace(parse_index(listed(world)), version=9).title == "index of acme, version 9"
