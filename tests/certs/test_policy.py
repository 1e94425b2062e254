"""The trust policy denies by default, and no mistake in it loosens anything."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import authority, keys, policy, statement
from pytest_frt.certs.starter import starter_policy
from pytest_frt.errors import CertificateRefused, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World

SPOILED = [
    ("schema of another version", "frt-trust/1", "frt-trust/2", "POLICY_SCHEMA"),
    ("version 0", "version = 7", "version = 0", "POLICY_SCHEMA"),
    ("version as text", "version = 7", 'version = "7"', "POLICY_SCHEMA"),
    ("version as flag", "version = 7", "version = true", "POLICY_SCHEMA"),
    ("typo at the top", "skew_s", "skew", "POLICY_SCHEMA"),
    ("typo in a rule", "threshold", "treshold", "POLICY_SCHEMA"),
    ("typo in a floor", "min_n = 20", "min = 20", "POLICY_SCHEMA"),
    ("typo in require", "software = [", "softwares = [", "POLICY_SCHEMA"),
    ("float skew", "skew_s = 300", "skew_s = 3e2", "POLICY_SCHEMA"),
    ("float nan", "skew_s = 300", "skew_s = nan", "POLICY_SCHEMA"),
    ("floor as number", 'value = "1.02"', "value = 1.02", "POLICY_SCHEMA"),
    ("floor NaN", 'value = "1.02"', 'value = "NaN"', "DECIMAL"),
    ("a day of skew", "skew_s = 300", "skew_s = 86400", "POLICY_SCHEMA"),
    ("toml datetime", '"2027-03-01T00:00:00Z"', "2027-03-01T00:00:00Z", "POLICY_SCHEMA"),
    ("unknown status", '"active"', '"okay"', "POLICY_SCHEMA"),
    ("unknown composition", '"plan"', '"any"', "POLICY_SCHEMA"),
    ("config binding", "skew_s = 300", 'weights = "config"', "POLICY_SCHEMA"),
    ("pinned revision", "skew_s = 300", 'revision = "pinned"', "POLICY_SCHEMA"),
    ("threshold above the signers", "threshold = 1", "threshold = 2", "POLICY_SCHEMA"),
    ("threshold 0", "threshold = 1", "threshold = 0", "POLICY_SCHEMA"),
    ("signer without a key", 'signers = ["alice"]', 'signers = ["mallory"]', "POLICY_SCHEMA"),
    ("wildcard inside a segment", '"acme/*"', '"acme*"', "NAME"),
    ("wildcard in the middle", '"acme/*"', '"*/acme"', "NAME"),
    ("empty key window", 'until = "2027-06-01', 'until = "2025-06-01', "POLICY_SCHEMA"),
    ("deny without a reason", "deny = []", 'deny = [{ tree = "' + "a" * 64 + '" }]', "POLICY_SCHEMA"),
    ("deny of nothing", "deny = []", 'deny = [{ reason = "x" }]', "POLICY_SCHEMA"),
    ("deny of a repo at any revision", "deny = []", 'deny = [{ repo = "a/b", reason = "x" }]', "POLICY_SCHEMA"),
    ("duplicate toml key", "version = 7", "version = 7\nversion = 8", "POLICY_SYNTAX"),
    ("no toml", "version = 7", "version 7", "POLICY_SYNTAX"),
    ("index without required", "deny = []", "index = { max_life_days = 14 }", "POLICY_SCHEMA"),
    ("index required as text", "deny = []", 'index = { required = "yes" }', "POLICY_SCHEMA"),
    ("typo in index", "deny = []", "index = { required = true, max_life = 14 }", "POLICY_SCHEMA"),
    ("index of an issuer without a rule", "deny = []", "index = { required = false, issuers = { acne = true } }",
     "POLICY_SCHEMA"),
    ("index that lives for ever", "deny = []", "index = { required = true, max_life_days = 99999 }", "POLICY_SCHEMA"),
    ("min_serial below zero", "threshold = 1", "threshold = 1\nmin_serial = -1", "POLICY_SCHEMA"),
    ("min_serial as text", "threshold = 1", 'threshold = 1\nmin_serial = "5"', "POLICY_SCHEMA"),
    ("pin without a reason", "deny = []", 'allow_rollback = [{ payload = "' + "a" * 64 + '" }]', "POLICY_SCHEMA"),
    ("pin of half a digest", "deny = []", 'allow_rollback = [{ payload = "aa", reason = "x" }]', "DIGEST"),
    ("pin of a tree", "deny = []", 'allow_rollback = [{ tree = "' + "a" * 64 + '", reason = "x" }]', "POLICY_SCHEMA"),
    ("weak key", "ed25519:", "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=#", "KEY_FORMAT"),
]  # fmt: skip


def code_of(text: str | bytes) -> str:
    with pytest.raises(CertificateRefused) as caught:
        policy.parse(text if isinstance(text, bytes) else text.encode())
    return caught.value.refusal_code


def test_a_missing_policy_is_called_missing_and_says_how_to_write_one(tmp_path: Path) -> None:
    path = tmp_path / "frt-trust.toml"
    with pytest.raises(UsageFault, match=r"frt-trust\.toml is missing") as caught:
        policy.load(path)
    assert f"frt trust init --key PUB --out {path}" in caught.value.diagnostics()


@pytest.mark.parametrize("revision", ["214494d4", "main", "A" * 40, "a" * 39, "a" * 63, "", "Local"], ids=repr)
def test_a_revision_that_no_certificate_states_is_not_denied(world: World, revision: str) -> None:
    deny = f'deny = [{{ repo = "a/b", revision = "{revision}", reason = "x" }}]'
    with pytest.raises(CertificateRefused, match=r"deny\[0\]\.revision is not a whole commit") as caught:
        policy.parse(world.policy_text.replace("deny = []", deny, 1).encode())
    assert caught.value.refusal_code == "POLICY_SCHEMA"


def deny_local(world: World, stated: str) -> None:
    kernel = replace(world.record.kernel, revision=stated)
    deny = f'deny = [{{ repo = "{kernel.repo}", revision = "local", reason = "x" }}]'
    trusted = policy.parse(world.policy_text.replace("deny = []", deny, 1).encode())
    authority.deny(statement.parse_payload(world.payload(replace(world.record, kernel=kernel))), trusted)


@pytest.mark.parametrize("said", ["nothing", "local", "its tree digest, as a run does"])
def test_denied_local_builds_of_a_repo_stay_denied_however_they_say_it(world: World, said: str) -> None:
    with pytest.raises(CertificateRefused) as caught:
        deny_local(world, {"nothing": "", "local": "local"}.get(said, world.record.kernel.tree_digest))
    assert caught.value.refusal_code == "DENIED"


def test_a_build_of_a_commit_is_no_local_one(world: World) -> None:
    deny_local(world, "c" * 40)


@pytest.mark.parametrize(("old", "new", "code"), [case[1:] for case in SPOILED], ids=[case[0] for case in SPOILED])
def test_spoiled_policy(world: World, old: str, new: str, code: str) -> None:
    assert old in world.policy_text
    assert code_of(world.policy_text.replace(old, new, 1)) == code


@pytest.mark.parametrize("name", ["expires", "min_time", "composition", "schema", "version", "key", "rule"])
def test_what_must_be_said_has_no_default(world: World, name: str) -> None:
    import tomllib

    document = tomllib.loads(world.policy_text)
    assert name in document
    lines = world.policy_text.replace(f"[[{name}]]", "[[x]]").splitlines()
    assert code_of("\n".join(line for line in lines if not line.startswith(f"{name} ="))) == "POLICY_SCHEMA"


def test_an_issuer_may_need_an_index_that_others_do_not(world: World) -> None:
    asked = policy.parse(world.policy_text.replace(
        "deny = []", "index = { required = false, issuers = { acme = true } }").encode())  # fmt: skip
    assert (asked.index.of("acme"), asked.index.of("other")) == (True, False)
    silent = policy.parse(world.policy_text.encode())
    assert (silent.index.of("acme"), silent.rules[0].min_serial, silent.pinned) == (False, 0, frozenset())


def test_k3_one_key_under_two_owners(world: World) -> None:
    text = world.policy_text.replace(world.bob.public.text, world.alice.public.text)
    assert code_of(text) == "POLICY_DUPKEY"


def test_a_weak_key_is_refused_at_load(world: World) -> None:
    identity = "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    assert code_of(world.policy_text.replace(world.bob.public.text, identity)) == "KEY_WEAK"


def test_not_utf8(world: World) -> None:
    assert code_of(world.policy_text.encode() + b"# \xff") == "POLICY_SYNTAX"


@pytest.mark.parametrize(
    ("pattern", "value", "hit"),
    [
        ("acme/ffn", "acme/ffn", True),
        ("acme/ffn", "acme/ffn2", False),
        ("acme/*", "acme/ffn", True),
        ("acme/*", "acme", False),
        ("acme/*", "acme-evil/ffn", False),
        ("acme/*", "acme/ffn/deep", True),
        ("*", "anything/at/all", True),
    ],
)
def test_patterns_match_whole_segments(pattern: str, value: str, hit: bool) -> None:  # noqa: FBT001
    assert policy.matches(pattern, value) is hit


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_loads_from_a_private_file(world: World, tmp_path: Path) -> None:
    loaded = policy.load(write(tmp_path / "t.toml", world.policy_text))
    assert [key.owner for key in loaded.keys] == ["alice", "bob"]
    assert (loaded.allow_warn, loaded.allow_synthetic) == (False, False)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666], ids=oct)
def test_a_policy_others_may_write_is_refused(world: World, tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "t.toml", world.policy_text)
    path.chmod(mode)
    with pytest.raises(CertificateRefused, match="open to others") as caught:
        policy.load(path)
    assert caught.value.refusal_code == "POLICY_FILE"


def test_a_linked_foreign_or_special_policy_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link, fifo = write(tmp_path / "t.toml", world.policy_text), tmp_path / "link.toml", tmp_path / "fifo"
    link.symlink_to(path)
    os.mkfifo(fifo)
    for spoiled in (link, fifo):
        with pytest.raises(CertificateRefused) as caught:
            policy.load(spoiled)
        assert caught.value.refusal_code == "POLICY_FILE"
    monkeypatch.setattr("os.fstat", lambda fd, real=os.fstat: _owned_by(real(fd), 4242))
    with pytest.raises(CertificateRefused, match="uid 4242"):
        policy.load(path)


def _owned_by(facts: os.stat_result, uid: int) -> os.stat_result:
    return os.stat_result((*facts[:4], uid, *facts[5:10]))


def test_the_starter_policy_is_safe_and_loads() -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    loaded = policy.parse(starter_policy(keys.generate().public, "self", now).encode())
    assert (loaded.composition, loaded.allow_warn, loaded.allow_synthetic) == ("plan", False, False)
    assert loaded.expires - now == timedelta(days=365)
    floors = {floor.gate: (floor.op, str(floor.value)) for rule in loaded.rules for floor in rule.floors}
    assert floors["latency.net_win"] == (">=", "1.02")
    assert floors["ledger.fallbacks"] == ("<=", "0")
    assert floors["parity.host.cosine"] == (">=", "0.999")
    assert {"parity.seam.rel_l2", "parity.seam.slope", "parity.host.top1"} <= set(floors)
