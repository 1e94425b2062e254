"""The four commands: a key, a signature, an audit with an honest exit status, a first policy."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import keys, state_file, store
from pytest_frt.cli import certs, trust
from pytest_frt.errors import CertificateRefused, UsageFault

if TYPE_CHECKING:
    from tests.certs.conftest import World


class Frozen(datetime):
    """A clock that stands at the moment of the world."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Frozen:
        return cls(2026, 12, 1, tzinfo=tz)


AT = ["--at", "2026-12-01T00:00:00Z"]


def frt(*argv: object) -> int:
    parser = argparse.ArgumentParser(prog="frt")
    commands = parser.add_subparsers(required=True)
    certs.add_commands(commands)
    trust.add_commands(commands)
    args = parser.parse_args([str(arg) for arg in argv])
    status = args.func(args)
    assert isinstance(status, int)
    return status


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working directory with a key, the policy of the world and a signed, trusted certificate."""
    monkeypatch.chdir(tmp_path)
    frt("keygen", "frt-key.pem")
    text = world.policy_text.replace(world.alice.public.text, Path("frt-key.pub").read_text().strip())
    Path("frt-trust.toml").write_text(text)
    Path("frt-trust.toml").chmod(0o644)
    statement = store.write_statement("certs", world.payload())
    frt("sign", "--key", "frt-key.pem", statement)
    return tmp_path


def test_from_key_to_audit(folder: Path, capsys: pytest.CaptureFixture[str], world: World) -> None:
    assert (folder / "frt-key.pem").stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    assert frt("verify", "certs", *AT) == 0
    out = capsys.readouterr().out
    assert f"accepted  {world.record.key.id}" in out
    assert "1 accepted, 0 refused" in out


def test_one_refused_certificate_fails_the_audit(
    folder: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    other = world.line(world.payload(replace(world.record, seed=8)))
    (folder / "certs" / f"bad{store.CERTIFICATE_SUFFIX}").write_bytes(other + b"\n{}\n")
    capsys.readouterr()
    assert frt("verify", "certs", *AT) == 1
    out = capsys.readouterr().out
    assert f"bad{store.CERTIFICATE_SUFFIX}:1  [SIG_NONE]" in out
    assert "1 accepted, 2 refused" in out
    assert frt("verify", "certs", "--json", *AT) == 1
    found = json.loads(capsys.readouterr().out)
    assert sorted(item.get("code", "") for item in found) == ["", "PAYLOAD_TYPE", "SIG_NONE"]


def test_nothing_to_verify_is_no_success(folder: Path) -> None:
    (folder / "empty").mkdir()
    store.write_statement(folder / "empty", next(folder.glob("certs/**/*.statement.json")).read_bytes())
    with pytest.raises(UsageFault, match="no certificate") as caught:
        frt("verify", "empty", *AT)
    assert "frt sign" in caught.value.diagnostics()


@pytest.mark.usefixtures("folder")
def test_a_moment_that_was_asked_about() -> None:
    assert frt("verify", "certs", "--at", "2026-11-29T00:00:30Z") == 0
    assert frt("verify", "certs", "--at", "2026-10-01T00:00:00Z") == 1
    with pytest.raises(CertificateRefused, match="--at"):
        frt("verify", "certs", "--at", "yesterday")


def test_verify_remembers_what_it_accepted_where_it_is_told(
    folder: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = keys.load_private(folder / "frt-key.pem")
    monkeypatch.setattr(certs, "datetime", Frozen)

    def verify(serial: int, *options: str) -> int:
        line = world.line(world.spoiled(lambda s: s["predicate"].update(serial=serial)), key)
        (folder / f"one{store.CERTIFICATE_SUFFIX}").write_bytes(line)
        return frt("verify", f"one{store.CERTIFICATE_SUFFIX}", *options)

    memory = ["--state", "memory.json"]
    assert [verify(5, *memory), verify(4, *memory), verify(4), verify(6, *memory), verify(5, *memory)] == [
        0,
        1,
        0,
        0,
        1,
    ]
    older = world.line(world.spoiled(lambda s: s["predicate"].update(serial=1)), key)
    (folder / f"older{store.CERTIFICATE_SUFFIX}").write_bytes(older)
    both = ["verify", f"one{store.CERTIFICATE_SUFFIX}", f"older{store.CERTIFICATE_SUFFIX}", "--state"]
    assert [frt(*both, "new.json"), frt(*both, "new.json"), frt(*both[:-1])] == [1, 1, 0]
    assert verify(3, "--state", "auto") == 0
    assert state_file.read(state_file.default_place("frt-trust.toml")).policy_version == 7
    with pytest.raises(UsageFault, match="another moment"):
        verify(5, *memory, *AT)
    Path("memory.json").write_text("{}")
    with pytest.raises(CertificateRefused, match="damaged"):
        verify(9, *memory)


def test_keys_are_never_overwritten(folder: Path) -> None:
    before = (folder / "frt-key.pem").read_bytes()
    with pytest.raises(UsageFault, match="never overwritten"):
        frt("keygen", "frt-key.pem")
    with pytest.raises(UsageFault, match="public key"):
        frt("keygen", "frt-key.pub")
    assert (folder / "frt-key.pem").read_bytes() == before


def test_a_passphrase_from_a_file(folder: Path) -> None:
    (folder / "phrase").write_text("sesame\n")
    (folder / "nothing").write_text("\n")
    frt("keygen", "shut.pem", "--passphrase-file", "phrase")
    statement = next(folder.glob("certs/**/*.statement.json"))
    with pytest.raises(CertificateRefused, match="Password"):
        frt("sign", "--key", "shut.pem", statement)
    assert frt("sign", "--key", "shut.pem", "--passphrase-file", "phrase", statement) == 0
    with pytest.raises(UsageFault, match="empty"):
        frt("keygen", "x.pem", "--passphrase-file", "nothing")


def test_one_bad_statement_and_nothing_is_signed(folder: Path, world: World) -> None:
    good = store.write_statement(folder / "new", world.payload())
    bad = folder / "bad.statement.json"
    bad.write_bytes(world.spoiled(lambda document: document["predicate"].update(result="FAILED")))
    with pytest.raises(CertificateRefused, match=r"bad\.statement\.json"):
        frt("sign", "--key", "frt-key.pem", good, bad)
    assert not list((folder / "new").glob(f"**/*{store.CERTIFICATE_SUFFIX}"))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("as_text", [False, True], ids=["file", "text"])
def test_trust_init_trusts_the_key_and_nobody_else(as_text: bool) -> None:  # noqa: FBT001
    public = Path("frt-key.pub").read_text().strip() if as_text else "frt-key.pub"
    assert frt("trust", "init", "--key", public, "--owner", "acme", "-o", "new.toml") == 0
    assert frt("verify", "certs", "--trust", "new.toml", "--at", "2026-12-01T00:00:00Z") == 0
    frt("keygen", "other.pem")
    frt("trust", "init", "--key", "other.pub", "-o", "other.toml")
    assert frt("verify", "certs", "--trust", "other.toml", *AT) == 1
    with pytest.raises(UsageFault, match="never overwritten"):
        frt("trust", "init", "--key", public, "-o", "new.toml")


def test_an_audit_needs_neither_torch_nor_a_network(folder: Path) -> None:
    code = """
import argparse, socket, sys
sys.modules["torch"] = None
socket.socket.connect = None
from pytest_frt.cli.certs import add_commands
parser = argparse.ArgumentParser()
add_commands(parser.add_subparsers())
args = parser.parse_args(["verify", "certs", "--at", "2026-12-01T00:00:00Z"])
sys.exit(args.func(args))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
