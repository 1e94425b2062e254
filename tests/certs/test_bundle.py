"""``frt bundle``: a run and its surroundings, equal bytes for equal inputs, and an audit that needs a policy."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pytest_frt.certs import bundle, index_build
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused, UsageFault
from tests.certs.conftest import World
from tests.certs.releases import Publisher, listing

AT = ("--at", "2026-12-01T00:00:00Z")


@pytest.fixture
def mine(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """What a run left, a log, waivers and a policy, in the working directory."""
    made = Publisher(world, tmp_path)
    build = made.build()
    made.certify(build)
    made.plan(build)
    monkeypatch.chdir(tmp_path)
    Path("run.log").write_text("all well\n")
    Path("waivers.toml").write_text("")
    Path("frt-certs/cpu.lock").write_text("")
    trust = Path("frt-trust.toml")
    trust.write_text(world.policy_text)
    trust.chmod(0o600)
    return made


def make(out: str, *words: str) -> Path:
    assert main(["bundle", out, "--log", "run.log", "--waivers", "waivers.toml", *words]) == 0
    return Path(out)


@pytest.mark.usefixtures("mine")
def test_package_holds_the_run_and_its_surroundings() -> None:
    files = bundle.read(make("x.frt.zip"))
    own = {f"run/{name}" for name in listing(Path("frt-certs")) if not name.endswith(".lock")}
    more = {"manifest.json", "logs/run.log", "waivers/waivers.toml"}
    more |= {"git.json", "environment.json", "signatures.json"}
    assert files.keys() == own | more
    environment, signatures = (json.loads(files[name]) for name in ("environment.json", "signatures.json"))
    assert environment["installed"]["pytest-frt"]
    assert {one["device"]["name"] for one in environment["certified"].values()} == {"Some CPU @ 2.00GHz"}
    assert all(len(one["keyids"]) == 1 for one in signatures.values())
    assert len(signatures) == 2


@pytest.mark.usefixtures("mine")
def test_equal_inputs_give_equal_bytes() -> None:
    first = make("x.frt.zip").read_bytes()
    for path in Path("frt-certs").rglob("*"):
        path.touch()
    assert make("y.frt.zip").read_bytes() == first


@pytest.mark.parametrize("out", ["x.frt.zip", "x"], ids=["zip", "folder"])
@pytest.mark.usefixtures("mine")
def test_sound_package_passes_and_can_be_unpacked(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    make(out)
    assert main(["bundle", "--check", out, *AT, "--extract", "there"]) == 0
    assert "2 accepted, 0 refused" in capsys.readouterr().out
    assert listing(Path("there")) == bundle.read(Path(out))
    assert main(["verify", "there/run", *AT]) == 0


def test_untrusted_package_fails_and_is_not_unpacked(mine: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    make("x.frt.zip")
    capsys.readouterr()
    text = mine.world.policy_text.replace(mine.world.alice.public.text, "ed25519:" + "A" * 42 + "8=")
    Path("frt-trust.toml").write_text(text)
    status = main(["bundle", "--check", "x.frt.zip", *AT, "--extract", "there", "--json"])
    found = capsys.readouterr()
    assert status == 1, found
    assert {one["code"] for one in json.loads(found.out)} == {"SIG_NONE"}
    assert not Path("there").exists()


@pytest.mark.parametrize(
    "words",
    [["--extract", "there"], ["--json"], ["--trust", "frt-trust.toml"], ["--at", AT[1]]],
    ids=["extract", "json", "trust", "at"],
)
@pytest.mark.usefixtures("mine")
def test_option_of_the_audit_needs_the_audit(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "x.frt.zip", *words]) == UsageFault.exit_code
    assert f"{words[0]} goes with --check\n  next: " in capsys.readouterr().err
    assert not Path("x.frt.zip").exists()


@pytest.mark.parametrize("option", ["--from", "--log", "--waivers"])
@pytest.mark.usefixtures("mine")
def test_option_of_packing_goes_without_the_audit(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    make("x.frt.zip")
    assert main(["bundle", "x.frt.zip", "--check", *AT, option, "frt-certs"]) == UsageFault.exit_code
    assert f"{option} goes without --check\n  next: " in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["", "ENCRYPTED ", "EC ", "OPENSSH "])
@pytest.mark.parametrize("place", ["frt-certs/note.txt", "run.log", "waivers.toml"], ids=["run", "log", "waivers"])
@pytest.mark.usefixtures("mine")
def test_private_key_is_never_packed(kind: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(place).write_text(f"before\n-----BEGIN {kind}PRIVATE KEY-----\nc2VjcmV0\n")
    assert main(["bundle", "x.frt.zip", "--log", "run.log", "--waivers", "waivers.toml"]) == 1
    err = capsys.readouterr().err
    assert f"[BUNDLE_SECRET] {place} holds a private key" in err
    assert "c2Vj" not in err
    assert not Path("x.frt.zip").exists()


@pytest.mark.usefixtures("mine")
def test_fifo_in_the_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("frt-certs/pipe")
    assert main(["bundle", "x.frt.zip"]) == 1
    assert "[TREE_SPECIAL] frt-certs/pipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["bundle", "x.frt.zip"], ["bundle", "there", "--check", *AT], ["verify", "frt-certs", "--at", AT[1]]],
    ids=["pack", "check", "verify"],
)
def test_folder_that_cannot_be_read_is_refused(
    mine: Publisher, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make("there")
    (mine.out / "shut").mkdir()
    Path("there/shut").mkdir()
    shut_off(monkeypatch)
    assert main(words) == 1
    told = capsys.readouterr()
    assert "[SET_FILE]" in told.out + told.err
    assert "shut cannot be read: Permission denied" in told.out + told.err
    assert not Path("x.frt.zip").exists()
    assert words[0] == "bundle" or "2 accepted, 1 refused" in told.out


def test_index_is_not_made_over_a_folder_that_cannot_be_read(mine: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    (mine.out / "shut").mkdir()
    shut_off(monkeypatch)
    with pytest.raises(CertificateRefused, match="shut cannot be read") as caught:
        index_build.survey(mine.out, mine.world.alice.public, datetime(2026, 12, 1, tzinfo=UTC))
    assert caught.value.refusal_code == "SET_FILE"


def shut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody list folders called ``shut``, not even root."""
    scan = os.scandir

    def closed(path: str) -> object:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)


@pytest.mark.parametrize("gone", ["*.safetensors", "*.jsonl"], ids=["artefact", "certificate"])
def test_run_that_lacks_something_is_not_packed(mine: Publisher, gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in mine.out.rglob(gone):
        path.unlink()
    assert main(["bundle", "x.frt.zip"]) != 0
    assert ("BUNDLE_INCOMPLETE" in capsys.readouterr().err) == (gone == "*.safetensors")
    assert not Path("x.frt.zip").exists()


@pytest.mark.usefixtures("mine")
def test_package_without_its_artefact_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    files = bundle.read(make("x.frt.zip"))
    less = {name: data for name, data in files.items() if not name.endswith(".safetensors") and name != bundle.MANIFEST}
    bundle.write(Path("less.zip"), bundle.with_manifest(less))
    assert main(["bundle", "--check", "less.zip", *AT]) == 1
    assert "[BUNDLE_INCOMPLETE]" in capsys.readouterr().err


@pytest.mark.usefixtures("mine")
def test_package_of_logs_alone_is_no_success() -> None:
    bundle.write(Path("logs.zip"), bundle.with_manifest({"logs/a.txt": b"a"}))
    assert main(["bundle", "--check", "logs.zip", *AT]) == UsageFault.exit_code


def git(*words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607


@pytest.mark.usefixtures("mine")
def test_git_state_is_commit_and_dirt() -> None:
    def state() -> dict[str, object]:
        Path("x.frt.zip").unlink(missing_ok=True)
        found: dict[str, object] = json.loads(bundle.read(make("x.frt.zip"))["git.json"])
        return found

    assert state() == {"commit": "", "dirty": None}
    git("init", "-q")
    git("add", "run.log")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert state() == {"commit": commit, "dirty": False}
    Path("run.log").write_text("changed\n")
    assert state() == {"commit": commit, "dirty": True}
