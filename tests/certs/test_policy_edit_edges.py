"""Edits of a policy file at their edges: only the entry that was meant, in any layout, or nothing at all."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import files, keys, lock, policy, policy_edit
from pytest_frt.certs.policy_edit import Edit, NewKey, add_deny, add_key, add_signer, change, held, revoke_key
from pytest_frt.errors import CertificateRefused, UsageFault
from tests.certs.test_keyless import entry

if TYPE_CHECKING:
    from tests.certs.conftest import World

CAROL = keys.generate().public
NEW = NewKey("carol", CAROL.text, "2026-02-03T00:00:00Z", "2027-04-05T00:00:00Z")
DIGEST, OTHER = "d" * 64, "e" * 64
SECOND_RULE = """[[rule]]
issuer = "beta"
signers = ["bob"]
threshold = 1
structures = ["*"]
kernels = ["*"]
hosts = ["*"]
devices = ["*"]
schemes = ["*"]
"""
UNCHANGED = Edit(lambda text: text, lambda _: None)


def write(folder: Path, text: str, mode: int = 0o644) -> Path:
    path = folder / "trust.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def inline(value: object) -> str:
    """Return a value of TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {inline(one)}" for name, one in value.items()) + " }"
    return f"[{', '.join(map(inline, value))}]" if isinstance(value, list) else json.dumps(value)


@pytest.fixture
def trust(world: World, tmp_path: Path) -> Path:
    """Return a policy of two rules, with a table between the keys and them."""
    return write(tmp_path, world.policy_text.replace("[[rule]]", "[index]\nrequired = true\n[[rule]]") + SECOND_RULE)


def test_a_key_is_written_at_the_end_member_by_member(trust: Path) -> None:
    before = trust.read_text()
    assert change(trust, add_key(NEW)) == 8
    assert trust.read_text() == before.rstrip().replace("version = 7", "version = 8") + (
        f'\n\n[[key]]\nowner = "carol"\npublic = "{CAROL.text}"\n'
        'from = "2026-02-03T00:00:00Z"\nuntil = "2027-04-05T00:00:00Z"\nstatus = "active"\n'
    )


def test_several_edits_are_one_version(trust: Path) -> None:
    deny = add_deny({"tree": DIGEST, "reason": "x"})
    assert change(trust, add_key(NEW), add_signer(1, "carol"), revoke_key(0, "lost"), deny) == 8
    loaded = policy.load(trust)
    assert loaded.version == 8
    assert [key.status for key in loaded.keys] == ["revoked", "active", "active"]
    assert [rule.signers for rule in loaded.rules] == [frozenset({"alice"}), frozenset({"bob", "carol"})]
    assert [(one.kind, one.value, one.reason) for one in loaded.deny] == [("tree", DIGEST, "x")]


def test_no_edit_raises_the_version_alone(trust: Path) -> None:
    before = trust.read_text()
    assert change(trust) == 8
    assert trust.read_text() == before.replace("version = 7", "version = 8")


@pytest.mark.parametrize("number", [0, 1])
def test_the_key_that_is_meant_is_revoked(trust: Path, number: int) -> None:
    change(trust, revoke_key(number, "laptop"))
    expected = ["active", "active"]
    expected[number] = "revoked"
    assert [key.status for key in policy.load(trust).keys] == expected


def test_a_revoked_key_keeps_its_indentation(trust: Path) -> None:
    trust.write_text(trust.read_text().replace('status = "active"', '  status = "active"  # since May'))
    change(trust, revoke_key(1, "laptop"))
    assert trust.read_text().count('\n  # revoked: laptop\n  status = "revoked"  # since May\n') == 1


@pytest.mark.parametrize("written", ['["alice"]', '[ "alice" ]', '["alice",]', '["alice" , ]', "['alice']"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_signer_is_added_to_the_rule_that_is_meant(trust: Path, number: int, written: str) -> None:
    trust.write_text(trust.read_text().replace('["alice"]', written).replace('["bob"]', written))
    change(trust, add_signer(number, "bob"))
    expected = [frozenset({"alice"}), frozenset({"alice"})]
    expected[number] = frozenset({"alice", "bob"})
    assert [rule.signers for rule in policy.load(trust).rules] == expected


MORE, OLD = f'{{ tree = "{DIGEST}", reason = "x" }}', f'{{ tree = "{OTHER}", reason = "y" }}'
KEY = f'{{ key = "{CAROL.text}", reason = "z" }}'
DENIED = {
    "empty": ("[]", f"[{MORE}]"),
    "blanks": ("[ \t]", f"[{MORE} \t]"),
    "one": (f"[{OLD}]", f"[{MORE}, {OLD}]"),
    "one after a blank": (f"[ {OLD}]", f"[{MORE},  {OLD}]"),
    "two": (f"[{OLD}, {KEY}]", f"[{MORE}, {OLD}, {KEY}]"),
    "a line": (f"[\n{OLD}]", f"[{MORE},\n{OLD}]"),
}


@pytest.mark.parametrize(("before", "after"), DENIED.values(), ids=DENIED)
def test_an_entry_is_denied_in_front_of_the_others(trust: Path, before: str, after: str) -> None:
    text = trust.read_text().replace("deny = []", f"deny = {before}")
    trust.write_text(text)
    change(trust, add_deny({"tree": DIGEST, "reason": "x"}))
    assert trust.read_text() == text.replace(f"deny = {before}", f"deny = {after}").replace("sion = 7", "sion = 8")


def test_the_first_entry_stands_before_the_version(trust: Path) -> None:
    trust.write_text(trust.read_text().replace("deny = []\n", ""))
    change(trust, add_deny({"tree": DIGEST, "reason": "x"}))
    assert f"deny = [{MORE}]\nversion = 8\n" in trust.read_text()


def test_quotes_and_backslashes_are_said_as_they_are(trust: Path) -> None:
    change(trust, add_deny({"tree": DIGEST, "reason": 'a "b" \\ \\n \\" c'}))
    assert policy.load(trust).deny[0].reason == 'a "b" \\ \\n \\" c'


@pytest.mark.parametrize("looks", ["version = 1", "[key]", "[[index]]"])
@pytest.mark.parametrize("denied", [True, False])
def test_a_reason_that_looks_like_another_place_stays(trust: Path, looks: str, *, denied: bool) -> None:
    name, thing = ("deny", "tree") if denied else ("allow_rollback", "payload")
    entry = f'{name} = [{{ {thing} = "{OTHER}", reason = """\\\n{looks}""" }}]'
    trust.write_text(trust.read_text().replace("deny = []", entry))
    change(trust, add_deny({"tree": DIGEST, "reason": "x"}), revoke_key(0, "lost"))
    loaded = policy.load(trust)
    assert (loaded.version, [key.status for key in loaded.keys]) == (8, ["revoked", "active"])
    reasons = [one.reason for one in loaded.deny] + [one.reason for one in loaded.allow_rollback]
    assert reasons == ["x", looks]


def test_a_rule_that_is_written_inline_is_left_alone(trust: Path) -> None:
    text = trust.read_text()
    start = text.index("[[rule]]")
    (first, *_) = text[start:].split('floors."parity.host.cosine"')
    inline = ", ".join(first.splitlines()[1:])
    trust.write_text(text[:start].replace("[[key]]", f"rule = [{{ {inline} }}]\n[[key]]", 1))
    before = trust.read_bytes()
    assert [rule.issuer for rule in policy.load(trust).rules] == ["acme"]
    with pytest.raises(UsageFault, match="cannot change"):
        change(trust, add_signer(0, "bob"))
    assert trust.read_bytes() == before


@pytest.mark.parametrize(
    "edit", [revoke_key(0, "lost"), add_signer(0, "bob"), add_key(NEW)], ids=["key", "signer", "new key"]
)
def test_a_policy_without_a_table_is_left_alone(trust: Path, edit: Edit) -> None:
    document = tomllib.loads(trust.read_text())
    trust.write_text("".join(f"{name} = {inline(value)}\n" for name, value in document.items()))
    before = trust.read_bytes()
    with pytest.raises(UsageFault, match="cannot change"):
        change(trust, edit)
    assert trust.read_bytes() == before


def test_the_first_key_is_added_to_workflows(world: World, tmp_path: Path) -> None:
    (tmp_path / "trusted_root.json").write_bytes(b"{}")
    head, *_ = world.policy_text.split("[[key]]")
    trust = write(tmp_path, head + SECOND_RULE.replace("bob", "acme-ci") + entry(tmp_path))
    change(trust, add_key(NEW))
    assert [key.owner for key in policy.load(trust).keys] == ["carol"]


@pytest.mark.parametrize("text", ["", "a\nb", "a\tb", "a\x00", "\u202eb"], ids=ascii)
@pytest.mark.parametrize("what", ["deny", "revoke", "owner", "signer"])
def test_what_is_not_one_printable_line_is_never_written(trust: Path, what: str, text: str) -> None:
    before = trust.read_bytes()
    with pytest.raises(UsageFault, match="printable line"):
        change(trust, {
            "deny": lambda: add_deny({"tree": DIGEST, "reason": text}),
            "revoke": lambda: revoke_key(0, text),
            "owner": lambda: add_key(NewKey(text, CAROL.text, NEW.valid_from, NEW.valid_until)),
            "signer": lambda: add_signer(0, text),
        }[what]())  # fmt: skip
    assert trust.read_bytes() == before


WRONG: dict[str, tuple[Edit, str]] = {
    "text alone": (Edit(lambda text: text.replace("skew_s = 300", "skew_s = 301"), lambda _: None), "cannot change"),
    "document alone": (Edit(lambda text: text, lambda document: document.update(skew_s=301)), "cannot change"),
    "a signer without a key": (add_signer(0, "nobody"), "POLICY_SCHEMA"),
    "a key that ends first": (add_key(NewKey("carol", CAROL.text, NEW.valid_until, NEW.valid_from)), "POLICY_SCHEMA"),
    "no TOML": (Edit(lambda text: text + "[[", lambda _: None), "trust.toml"),
}


@pytest.mark.parametrize(("edit", "said"), WRONG.values(), ids=WRONG)
def test_a_change_to_something_else_is_not_written(trust: Path, edit: Edit, said: str) -> None:
    before = trust.read_bytes()
    with pytest.raises((UsageFault, CertificateRefused)) as caught:
        change(trust, edit)
    assert said in caught.value.diagnostics()
    assert (trust.read_bytes(), sorted(trust.parent.iterdir())) == (before, [trust])


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o744])
def test_who_may_read_it_stays(trust: Path, mode: int) -> None:
    trust.chmod(mode)
    before = os.umask(0o077)
    try:
        change(trust, UNCHANGED)
    finally:
        os.umask(before)
    assert trust.stat().st_mode & 0o777 == mode


def test_a_file_that_others_may_write_is_not_changed(trust: Path) -> None:
    trust.chmod(0o666)
    before = trust.read_bytes()
    with pytest.raises(CertificateRefused) as caught:
        change(trust, UNCHANGED)
    assert (caught.value.refusal_code, trust.read_bytes()) == ("POLICY_FILE", before)


def test_what_somebody_else_wrote_meanwhile_stays(trust: Path) -> None:
    theirs = trust.read_text() + "# theirs\n"

    def slowly(text: str) -> str:
        trust.write_text(theirs)
        return text

    with pytest.raises(UsageFault, match="meanwhile"):
        change(trust, Edit(slowly, lambda _: None))
    assert trust.read_text() == theirs


@pytest.mark.parametrize("nth", [1, 2])
def test_a_file_that_is_opened_to_others_between_its_readings_is_not_changed(
    trust: Path, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, calls = files.read_owned, list[Path]()

    def opened(path: Path, *, code: str, cap: int) -> bytes:
        calls.append(path)
        if len(calls) == nth:
            path.chmod(0o666)
        return read(path, code=code, cap=cap)

    monkeypatch.setattr(policy_edit, "read_owned", opened)
    before = trust.read_bytes()
    with pytest.raises(CertificateRefused) as caught:
        change(trust, UNCHANGED)
    assert (caught.value.refusal_code, trust.read_bytes()) == ("POLICY_FILE", before)


def test_the_holder_sees_the_policy_and_has_the_lock(trust: Path) -> None:
    place = trust.with_name("trust.toml.lock")
    with held(trust) as found:
        assert found == policy.load(trust)
        assert place.is_file()
    assert not place.exists()


def test_what_is_no_policy_gets_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_edit, "locked", lambda *_, **__: pytest.fail("it was locked"))
    with pytest.raises(UsageFault), held(tmp_path / "trust.toml"):
        pytest.fail("nothing is there to hold")
    with pytest.raises(CertificateRefused, match="schema"), held(write(tmp_path, "version = 1\n")):
        pytest.fail("that is no policy")


def test_the_policy_is_read_anew_under_the_lock(trust: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = lock.locked

    def late(place: Path, *, special: str) -> object:
        place.write_text(place.read_text().replace("version = 7", "version = 70"))
        return locked(place, special=special)

    monkeypatch.setattr(policy_edit, "locked", late)
    with held(trust) as found:
        assert found.version == 70


def test_a_lock_that_is_no_file_is_refused(trust: Path) -> None:
    os.mkfifo(trust.with_name("trust.toml.lock"))
    with pytest.raises(CertificateRefused) as caught, held(trust):
        pytest.fail("a pipe locks nothing")
    assert caught.value.refusal_code == "POLICY_FILE"
