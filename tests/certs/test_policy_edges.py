"""The policy at its edges: defaults, the last number that is taken, members that exclude each other, names."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import policy
from pytest_frt.certs.policy_types import Deny, IndexNeed, Pin, Policy, Require
from pytest_frt.errors import CertificateRefused, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World

SHA, OTHER = "a" * 64, "b" * 64
COMMIT = "c" * 40
MIB = 1024 * 1024


def changed(world: World, old: str, new: str) -> str:
    assert old in world.policy_text, old
    return world.policy_text.replace(old, new, 1)


def added(world: World, line: str) -> Policy:
    """Return the policy with one more line at the top."""
    return policy.parse(changed(world, "deny = []", f"deny = []\n{line}").encode())


def refused(text: str) -> CertificateRefused:
    with pytest.raises(CertificateRefused) as caught:
        policy.parse(text.encode())
    return caught.value


def without(world: World, *lines: str) -> Policy:
    text = world.policy_text
    for line in lines:
        assert f"{line}\n" in text, line
        text = text.replace(f"{line}\n", "")
    return policy.parse(text.encode())


def test_what_is_not_said_has_the_documented_default(world: World) -> None:
    optional = ("skew_s", "max_life_days", "deny", "threshold", "require", "floors")
    bare = without(world, *(line for line in world.policy_text.splitlines() if line.startswith(optional)))
    assert (bare.skew, bare.max_life) == (timedelta(seconds=300), timedelta(days=400))
    assert (bare.deny, bare.allow_rollback, bare.floors, bare.keyless) == ((), (), (), ())
    assert (bare.require, bare.index) == (Require(), IndexNeed())
    assert (bare.allow_warn, bare.allow_synthetic) == (False, False)
    (rule,) = bare.rules
    assert (rule.threshold, rule.min_serial, rule.floors) == (1, 0, ())
    assert bare.source == "policy"


def test_what_is_said_is_kept(world: World) -> None:
    text = world.policy_text.replace("skew_s = 300", "skew_s = 7").replace("max_life_days = 400", "max_life_days = 9")
    kept = policy.parse(text.encode(), "mine.toml")
    assert (kept.source, kept.version, kept.composition) == ("mine.toml", 7, "plan")
    assert (kept.skew, kept.max_life) == (timedelta(seconds=7), timedelta(days=9))
    assert kept.require == Require(("torch",), ("arch", "name"), ("transformers", "configDigest"))
    assert [(one.gate, one.op, one.value, one.min_n, one.by) for one in (*kept.floors, *kept.rules[0].floors)] == [
        ("latency.net_win", ">=", Decimal("1.02"), 20, "the policy"),
        ("parity.seam.rel_l2", "<=", Decimal("0.1"), 1, "the policy"),
        ("parity.host.cosine", ">=", Decimal("0.999"), 12, "rule 1"),
    ]


@pytest.mark.parametrize("member", ["software", "device", "host"])
def test_a_requirement_that_is_left_out_keeps_its_default(world: World, member: str) -> None:
    line = next(one for one in world.policy_text.splitlines() if one.startswith("require"))
    kept = policy.parse(changed(world, line, f'require = {{ {member} = ["x"] }}').encode()).require
    own = {name: getattr(Require(), name) for name in ("software", "device", "host")} | {member: ("x",)}
    assert kept == Require(**own)


LIMITS: dict[str, tuple[str, str, tuple[int, ...], tuple[int, ...]]] = {
    "version": ("version = 7", "version = {}", (1,), (0, -1)),
    "skew_s": ("skew_s = 300", "skew_s = {}", (0, 3_600), (-1, 3_601)),
    "max_life_days": ("max_life_days = 400", "max_life_days = {}", (1, 3_650), (0, 3_651)),
    "index": ("deny = []", "index = {{ required = true, max_life_days = {} }}", (1, 3_650), (0, 3_651)),
    "threshold": ('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = {}', (1, 2), (0, 3)),
    "min_serial": ("threshold = 1", "threshold = 1\nmin_serial = {}", (0, 1), (-1,)),
    "min_n": ("min_n = 20", "min_n = {}", (0, 1), (-1,)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_number_is_taken_up_to_its_limit_and_no_further(world: World, name: str) -> None:
    old, new, fine, bad = LIMITS[name]
    for number in fine:
        policy.parse(changed(world, old, new.format(number)).encode())
    for number in bad:
        assert refused(changed(world, old, new.format(number))).refusal_code == "POLICY_SCHEMA"


def test_a_threshold_that_cannot_be_met_says_whose_and_how_many(world: World) -> None:
    text = changed(world, "threshold = 1", "threshold = 2")
    assert refused(text).message == "rule for acme needs 2 of 1 signers"
    stranger = refused(changed(world, 'signers = ["alice"]', 'signers = ["zoe", "alice", "mallory"]'))
    assert stranger.message == "rule for acme names mallory, who owns no key"


def test_flags_that_allow_more_are_off_until_they_are_set(world: World) -> None:
    for name in ("allow_warn", "allow_synthetic"):
        found = {value: getattr(added(world, f"{name} = {value}"), name) for value in ("true", "false")}
        assert found == {"true": True, "false": False}
        assert refused(changed(world, "deny = []", f"{name} = 1")).refusal_code == "POLICY_SCHEMA"


@pytest.mark.parametrize(("name", "word"), [("weights", "exact"), ("revision", "bytes")])
def test_the_one_way_that_is_checked_may_be_written_out(world: World, name: str, word: str) -> None:
    assert added(world, f'{name} = "{word}"') == policy.parse(world.policy_text.encode())
    assert refused(changed(world, "deny = []", f'{name} = "{word}_"')).refusal_code == "POLICY_SCHEMA"


@pytest.mark.parametrize("composition", ["cell", "plan"])
def test_both_compositions_are_taken(world: World, composition: str) -> None:
    assert policy.parse(changed(world, '"plan"', f'"{composition}"').encode()).composition == composition


@pytest.mark.parametrize("status", ["active", "retired", "revoked"])
def test_every_status_of_a_key_is_taken(world: World, status: str) -> None:
    assert policy.parse(changed(world, '"active"', f'"{status}"').encode()).keys[0].status == status


def test_a_key_that_counts_at_one_moment_only_is_refused(world: World) -> None:
    at = changed(world, 'until = "2027-06-01T00:00:00Z"', 'until = "2026-01-01T00:00:00Z"')
    assert refused(at).message == "policy.key[0] is not a key whose window (from, until) has a length"
    later = changed(world, 'until = "2027-06-01T00:00:00Z"', 'until = "2026-01-01T00:00:01Z"')
    assert policy.parse(later.encode()).keys[0].alive(policy.parse(later.encode()).keys[0].valid_until)


def test_a_policy_without_a_key_or_without_a_rule_is_none(world: World) -> None:
    top = world.policy_text[: world.policy_text.index("[[key]]")]
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    keyless = refused(top + rule)
    assert (keyless.refusal_code, keyless.message) == ("POLICY_SCHEMA", "the policy names no key")
    assert "frt trust init" in (keyless.hint or "")
    for text in (f"rule = []\n{top}", top.replace("deny = []", "key = []\nrule = []")):
        assert refused(text).refusal_code == "POLICY_SCHEMA"
    keys = world.policy_text[world.policy_text.index("[[key]]") : world.policy_text.index("[[rule]]")]
    empty = refused(top.replace("deny = []", "rule = []") + keys)
    assert empty.message == "policy.rule is not a non-empty array of rules"


def test_a_key_that_is_listed_twice_names_both_owners(world: World) -> None:
    text = world.policy_text.replace(world.bob.public.text, world.alice.public.text)
    keyid = world.alice.public.keyid
    assert refused(text).message == f"key {keyid} is listed twice: alice and bob"


@pytest.mark.parametrize("name", ["structures", "kernels", "hosts", "devices", "schemes"])
def test_every_pattern_is_read_from_its_own_member(world: World, name: str) -> None:
    line = next(one for one in world.policy_text.splitlines() if one.startswith(f"{name} ="))
    rule = policy.parse(changed(world, line, f'{name} = ["own/{name}", "own/*", "*"]').encode()).rules[0]
    others = {"structures", "kernels", "hosts", "devices", "schemes"} - {name}
    assert getattr(rule, name) == (f"own/{name}", "own/*", "*")
    assert not any(f"own/{name}" in getattr(rule, other) for other in others)


DENIED: dict[str, tuple[str, Deny]] = {
    "payload": (f'payload = "{SHA}"', Deny("payload", SHA, "x")),
    "tree": (f'tree = "{SHA}"', Deny("tree", SHA, "x")),
    "repo": (f'repo = "acme/ffn", revision = "{COMMIT}"', Deny("commit", f"acme/ffn@{COMMIT}", "x")),
}


@pytest.mark.parametrize(("said", "read"), DENIED.values(), ids=DENIED)
def test_what_is_denied_is_read_as_it_is_said(world: World, said: str, read: Deny) -> None:
    text = changed(world, "deny = []", f'deny = [{{ {said}, reason = "x" }}]')
    assert policy.parse(text.encode()).deny == (read,)


def test_a_denied_key_is_named_by_its_one_form(world: World) -> None:
    key = world.bob.public.text
    text = changed(world, "deny = []", f'deny = [{{ key = "{key}", reason = "x" }}]')
    assert policy.parse(text.encode()).deny == (Deny("key", key, "x"),)


MIXED: dict[str, str] = {
    "payload and tree": f'payload = "{SHA}", tree = "{OTHER}"',
    "tree and repo": f'tree = "{SHA}", repo = "a/b", revision = "{COMMIT}"',
    "tree and revision": f'tree = "{SHA}", revision = "{COMMIT}"',
    "payload and revision": f'payload = "{SHA}", revision = "{COMMIT}"',
    "revision alone": f'revision = "{COMMIT}"',
    "repo alone": 'repo = "a/b"',
    "nothing": "",
}


@pytest.mark.parametrize("said", MIXED.values(), ids=MIXED)
def test_a_denial_of_several_things_or_of_none_is_refused(world: World, said: str) -> None:
    both = f"{said}, " if said else ""
    found = refused(changed(world, "deny = []", f'deny = [{{ {both}reason = "x" }}]'))
    assert found.refusal_code == "POLICY_SCHEMA"
    assert found.message == "policy.deny[0] is not one of payload, tree, key, or repo with revision"


def test_an_index_need_is_read_as_it_is_said(world: World) -> None:
    said = "index = { required = true, issuers = { acme = false }, max_life_days = 9 }"
    assert added(world, said).index == IndexNeed(True, (("acme", False),), timedelta(days=9))  # noqa: FBT003
    silent = added(world, "index = { required = true }").index
    assert silent == IndexNeed(required=True, max_life=timedelta(days=180))
    stranger = refused(changed(world, "deny = []", "index = { required = true, issuers = { zz = true, acne = true } }"))
    assert stranger.message == "policy.index.issuers names acne, who has no rule"


def test_a_pin_is_read_as_it_is_said(world: World) -> None:
    found = added(world, f'allow_rollback = [{{ payload = "{SHA}", reason = "slower since" }}]')
    assert found.allow_rollback == (Pin(SHA, "slower since"),)
    assert found.pinned == {SHA}


def test_a_policy_file_is_read_up_to_a_mebibyte(world: World, tmp_path: Path) -> None:
    path, text = tmp_path / "t.toml", f"{world.policy_text}# "
    path.write_text(text + "x" * (MIB - len(text)))
    path.chmod(0o600)
    assert policy.load(path).source == str(path)
    path.write_text(text + "x" * (MIB + 1 - len(text)))
    with pytest.raises(CertificateRefused) as caught:
        policy.load(path)
    assert caught.value.refusal_code == "POLICY_FILE"


def test_a_policy_that_cannot_be_looked_at_is_not_called_missing(world: World, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(world.policy_text)
    with pytest.raises(UsageFault, match="cannot be read: Not a directory"):
        policy.load(tmp_path / "t.toml" / "inner.toml")


UNKNOWN: dict[str, tuple[str, str]] = {
    "key": ('status = "active"', 'status = "active"\nnote = "x"'),
    "deny": ("deny = []", f'deny = [{{ tree = "{SHA}", reason = "x", note = "x" }}]'),
    "allow_rollback": ("deny = []", f'allow_rollback = [{{ payload = "{SHA}", reason = "x", note = "x" }}]'),
    "rule": ("threshold = 1", 'threshold = 1\nnote = "x"'),
    "index": ("deny = []", 'index = { required = true, note = "x" }'),
    "require": ("require = { ", 'require = { note = "x", '),
    "floor": ("min_n = 20", 'min_n = 20, note = "x"'),
}


@pytest.mark.parametrize(("old", "new"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_member_that_nobody_reads_is_refused_by_name(world: World, old: str, new: str) -> None:
    found = refused(changed(world, old, new))
    assert found.refusal_code == "POLICY_SCHEMA"
    assert found.message.endswith("has the unknown member 'note'")


def workflow(owner: str) -> str:
    return f"""\
[[sigstore]]
owner = "{owner}"
issuer = "https://issuer.example"
source_repository = "https://code.example/acme/ffn"
build_signer_uri = "https://code.example/acme/ffn/release.yml"
trusted_root = {{ path = "root.json", sha256 = "{SHA}" }}
"""


def test_workflows_are_owners_like_keys_and_enough_without_one(world: World) -> None:
    top = world.policy_text[: world.policy_text.index("[[key]]")]
    rule = world.policy_text[world.policy_text.index("[[rule]]") :]
    alone = policy.parse(f"{top}{workflow('alice')}{rule}".encode())
    assert (alone.keys, [one.owner for one in alone.keyless]) == ((), ["alice"])
    both = refused(f"{top}{workflow('alice')}{workflow('bob')}{rule}")
    assert both.refusal_code == "POLICY_DUPKEY"
