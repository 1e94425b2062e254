"""``frt trust``: each change says exactly what was asked, leaves every other byte, and never loosens by accident."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import keys, policy, policy_edit
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.starter import starter_policy
from pytest_frt.cli.trust import add_commands
from pytest_frt.errors import CertificateRefused, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World

CAROL = keys.generate().public
DIGEST = "d" * 64


def frt(*argv: object) -> int:
    parser = argparse.ArgumentParser(prog="frt")
    add_commands(parser.add_subparsers(required=True))
    args = parser.parse_args(["trust", *map(str, argv)])
    status = args.func(args)
    assert isinstance(status, int)
    return status


@pytest.fixture
def trust(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the policy of the world as a file, with a comment on every line."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "frt-trust.toml"
    lines = (f"{line}  # line {n}" if line else "" for n, line in enumerate(world.policy_text.splitlines()))
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o644)
    return path


def kept(before: str, after: str) -> set[str]:
    """Return the lines of ``before`` that ``after`` lacks."""
    return set(before.splitlines()) - set(after.splitlines())


def test_a_key_is_added_and_every_other_line_stays(trust: Path) -> None:
    before = trust.read_text()
    assert frt("add-key", CAROL.text, "--owner", "carol") == 0
    loaded = policy.load(trust)
    assert (loaded.version, loaded.keys[-1].owner, loaded.keys[-1].public) == (8, "carol", CAROL)
    assert [rule.signers for rule in loaded.rules] == [frozenset({"alice"})]
    assert kept(before, trust.read_text()) == {"version = 7  # line 1"}
    assert trust.stat().st_mode & 0o777 == 0o644


def test_a_key_with_a_rule_signs_for_it(trust: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = trust.read_text()
    until = "2027-01-02T03:04:05Z"
    frt("add-key", CAROL.text, "--owner", "carol", "--rule", "acme", "--from", "2026-11-01T00:00:00Z", "--until", until)
    loaded = policy.load(trust)
    assert (loaded.rules[0].signers, loaded.rules[0].threshold) == (frozenset({"alice", "carol"}), 1)
    assert time_text(loaded.keys[-1].valid_until) == until
    assert len(kept(before, trust.read_text())) == 2
    assert "signs for acme" in capsys.readouterr().out


def test_a_second_key_of_an_owner_is_not_a_second_signer(trust: Path) -> None:
    frt("add-key", CAROL.text, "--owner", "alice", "--rule", "acme")
    assert policy.load(trust).rules[0].signers == frozenset({"alice"})


PARTIAL = {
    "short": "214494d4", "a branch": "main", "upper case": "A" * 40, "one digit short": "a" * 39,
    "one digit long": "a" * 41, "between both lengths": "a" * 63, "empty": "", "local in capitals": "Local",
}  # fmt: skip
"""No certificate states such a revision, so to deny it would deny nothing."""
REFUSED: dict[str, tuple[list[str], str]] = {
    "an issuer without a rule": (["add-key", CAROL.text, "--owner", "carol", "--rule", "acne"], "issuers are acme"),
    "a weak key": (["add-key", f"ed25519:AQ{'A' * 41}=", "--owner", "x"], "KEY_WEAK"),
    "a key file that is not there": (["add-key", "no.pub", "--owner", "x"], "cannot be read"),
    "an owner that is no identifier": (["add-key", CAROL.text, "--owner", "a b"], "NAME"),
    "an owner that breaks out of its quotes": (["add-key", CAROL.text, "--owner", 'x"\nversion = 1'], "printable"),
    "a window without a length": (
        ["add-key", CAROL.text, "--owner", "x", "--until", "2020-01-01T00:00:00Z"], "POLICY_SCHEMA"),
    "a half digest": (["revoke", "--payload", "dd", "--reason", "x"], "DIGEST"),
    "a commit without a revision": (["revoke", "--commit", "acme/ffn", "--reason", "x"], "REPO@REVISION"),
    **{
        f"commit {what}": (["revoke", "--commit", f"acme/ffn@{revision}", "--reason", "x"], "--commit acme/ffn@")
        for what, revision in PARTIAL.items()
    },
    "an empty key": (["revoke", "--key", "", "--reason", "x"], "cannot be read"),
    "an empty commit": (["revoke", "--commit", "", "--reason", "x"], "REPO@REVISION"),
    "an empty payload": (["revoke", "--payload", "", "--reason", "x"], "printable"),
    "an empty rule": (["add-key", CAROL.text, "--owner", "carol", "--rule", ""], "issuers are acme"),
    "an empty end": (["add-key", CAROL.text, "--owner", "carol", "--until", ""], "TIME_FORMAT"),
    "an empty reason": (["revoke", "--tree", DIGEST, "--reason", ""], "printable"),
    "a reason of two lines": (["revoke", "--tree", DIGEST, "--reason", "a\nb"], "printable"),
    "a key that is neither": (["revoke", "--key", "SHA256:nobody", "--reason", "x"], "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize(("argv", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_changes_nothing(trust: Path, argv: list[str], said: str) -> None:
    before = trust.read_bytes()
    with pytest.raises((UsageFault, CertificateRefused)) as caught:
        frt(*argv)
    assert said in caught.value.diagnostics()
    assert trust.read_bytes() == before


def test_a_listed_key_is_not_added_again(trust: Path, world: World) -> None:
    before = trust.read_bytes()
    with pytest.raises(CertificateRefused) as caught:
        frt("add-key", world.bob.public.text, "--owner", "carol")
    assert (caught.value.refusal_code, trust.read_bytes()) == ("POLICY_DUPKEY", before)


@pytest.mark.parametrize("by", ["keyid", "text", "file"])
def test_a_key_is_marked_revoked(trust: Path, world: World, by: str) -> None:
    before, public = trust.read_text(), world.bob.public
    Path("bob.pub").write_text(f"{public.text}\n")
    frt("revoke", "--key", {"keyid": public.keyid, "text": public.text, "file": "bob.pub"}[by], "--reason", "laptop")
    loaded, after = policy.load(trust), trust.read_text()
    assert [key.status for key in loaded.keys] == ["active", "revoked"]
    assert '# revoked: laptop\nstatus = "revoked"  # line' in after
    assert len(kept(before, after)) == 2
    with pytest.raises(UsageFault, match="revoked already"):
        frt("revoke", "--key", public.text, "--reason", "again")


def test_a_foreign_key_is_denied(trust: Path) -> None:
    frt("revoke", "--key", CAROL.text, "--reason", "stolen")
    assert [(one.kind, one.value) for one in policy.load(trust).deny] == [("key", CAROL.text)]


THINGS = {
    "payload": (["--payload", DIGEST], ("payload", DIGEST)),
    "tree": (["--tree", DIGEST], ("tree", DIGEST)),
    "commit": (["--commit", f"acme/ffn@{'a' * 40}"], ("commit", f"acme/ffn@{'a' * 40}")),
    "long commit": (["--commit", f"acme/ffn@{'a' * 64}"], ("commit", f"acme/ffn@{'a' * 64}")),
    "local builds": (["--commit", "acme/ffn@local"], ("commit", "acme/ffn@local")),
}
LAYOUTS = {
    "empty": "deny = []",
    "none": "# nothing is denied",
    "one": f'deny = [{{ tree = "{"e" * 64}", reason = "old" }}]',
    "several lines": f'deny = [\n  {{ tree = "{"e" * 64}", reason = "[old]" }},  # why\n]',
    "lines without an entry": "deny = [\n]",
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("argv", "thing"), THINGS.values(), ids=THINGS)
def test_a_thing_is_denied_in_every_layout(trust: Path, argv: list[str], thing: tuple[str, str], layout: str) -> None:
    text = "".join(
        f"{layout}\n" if line.startswith("deny") else line for line in trust.read_text().splitlines(keepends=True)
    )
    trust.write_text(text)
    old = policy.load(trust).deny
    frt("revoke", *argv, "--reason", 'it says "no" \\ never')
    loaded = policy.load(trust)
    assert [(one.kind, one.value) for one in loaded.deny] == [thing, *((one.kind, one.value) for one in old)]
    assert (loaded.deny[0].reason, loaded.version) == ('it says "no" \\ never', 8)
    with pytest.raises(UsageFault, match="denied already"):
        frt("revoke", *argv, "--reason", "again")


def test_a_layout_that_cannot_be_edited_is_left_alone(trust: Path) -> None:
    for old, new in (('signers = ["alice"]', 'signers = [\n  "alice",\n]'), ("version = 7", '"version" = 7')):
        text = trust.read_text()
        assert old in text
        trust.write_text(text.replace(old, new))
        before = trust.read_bytes()
        with pytest.raises(UsageFault, match="cannot change"):
            frt("add-key", CAROL.text, "--owner", "carol", "--rule", "acme")
        assert trust.read_bytes() == before
        trust.write_text(text)


def test_what_looks_like_the_place_and_is_not_is_left_alone(trust: Path) -> None:
    text = trust.read_text()
    note = 'deny = [{ tree = "' + "e" * 64 + '", reason = """\nversion = 1\n[[key]]\nstatus = "active"\n""" }]\n'
    trust.write_text("".join(note if line.startswith("deny") else line for line in text.splitlines(keepends=True)))
    with pytest.raises(CertificateRefused):  # a reason of several lines is no policy at all
        frt("revoke", "--tree", DIGEST, "--reason", "x")


def test_a_change_by_somebody_else_is_not_overwritten(trust: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = trust.read_bytes() + b"# theirs\n"
    read = policy_edit.read_owned
    answers = iter([trust.read_bytes(), other])
    monkeypatch.setattr(policy_edit, "read_owned", lambda path, **options: next(answers, None) or read(path, **options))
    with pytest.raises(UsageFault, match="meanwhile"):
        policy_edit.change(trust, policy_edit.revoke_key(0, "x"))
    assert policy.load(trust).version == 7


def test_who_may_read_the_policy_stays_so_under_any_umask(trust: Path) -> None:
    before = os.umask(0o077)
    try:
        frt("revoke", "--tree", DIGEST, "--reason", "x")
    finally:
        os.umask(before)
    assert trust.stat().st_mode & 0o777 == 0o644


def test_the_starter_policy_can_be_changed_in_every_way(tmp_path: Path) -> None:
    path, public = tmp_path / "trust.toml", keys.generate().public
    path.write_text(starter_policy(public, "me", datetime.now(UTC)))
    path.chmod(0o644)
    before = path.read_text()
    frt("add-key", CAROL.text, "--owner", "carol", "--rule", "me", "--trust", path)
    frt("revoke", "--key", public.text, "--reason", "lost", "--trust", path)
    frt("revoke", "--tree", DIGEST, "--reason", "bad", "--trust", path)
    loaded = policy.load(path)
    assert (loaded.version, [key.status for key in loaded.keys]) == (4, ["revoked", "active"])
    assert loaded.rules[0].signers == frozenset({"me", "carol"})
    assert len(kept(before, path.read_text())) == 3


def test_show_says_what_ended_and_what_ends_soon(trust: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC)
    ends = 'until = "2027-06-01T00:00:00Z"'
    text = world.policy_text.replace(ends, f'until = "{time_text(now - timedelta(days=1))}"', 1)
    text = text.replace(ends, f'until = "{time_text(now + timedelta(days=99))}"')
    text = text.replace('expires = "2027-03-01T00:00:00Z"', f'expires = "{time_text(now + timedelta(days=9.5))}"')
    text = text.replace("deny = []", LAYOUTS["one"] + "\nindex = { required = true }")
    trust.write_text(text)
    assert frt("show") == 0
    out = capsys.readouterr().out
    assert "ends in 9 days" in out
    assert [line for line in out.splitlines() if "alice" in line and "EXPIRED" in line]
    assert not [line for line in out.splitlines() if "bob" in line and "EXPIRED" in line]
    for word in ("acme: 1 of alice", "must be in the index", "latency.net_win", "e" * 64, "old", "decoder_ffn@1"):
        assert word in out, word


def test_show_warns_of_a_retired_key_that_still_signs(
    trust: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    far = time_text(datetime.now(UTC) + timedelta(days=99))
    text = world.policy_text.replace('until = "2027-06-01T00:00:00Z"', f'until = "{far}"')
    trust.write_text(text.replace('status = "active"', 'status = "retired"', 1))
    frt("show")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "still signs" in line] == ["alice"]
