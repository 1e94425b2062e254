"""Whatever the system refuses is one message with the path, the reason and the next step; nothing is half done."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import codes
from pytest_frt.cli import bundle, words
from pytest_frt.errors import CertificateRefused, FrtError, StorageFault, UsageFault

Frt = Callable[..., tuple[int, str, str]]
LONG = "a" * 300
RUN = f"{sys.executable} -c 'from pytest_frt.cli import main; raise SystemExit(main())'"


@pytest.mark.parametrize(
    "line",
    [
        ["keygen", LONG],
        ["trust", "init", "--key", LONG],
        ["trust", "show", "--trust", LONG],
        ["verify", LONG],
        ["bundle", LONG],
        ["bundle", LONG, "--check"],
        ["export", LONG, "--test-result"],
        ["publish", LONG],
        ["report", LONG],
        ["explain", LONG],
        ["compare", LONG, LONG],
        ["replay", LONG],
        ["sign", "--key", LONG, LONG],
    ],
    ids=lambda line: " ".join(line).replace(LONG, "LONG"),
)
def test_name_that_is_too_long_is_one_message(frt: Frt, line: list[str]) -> None:
    status, _, err = frt(*line)
    assert status in {1, 4}
    assert err.startswith("frt: ")
    assert err.count("next: ") == 1


@pytest.mark.parametrize("fault", [PermissionError(13, "no", "x"), OSError(5, "Input/output error", "x")])
def test_what_the_system_refuses_is_one_message(frt: Frt, monkeypatch: pytest.MonkeyPatch, fault: OSError) -> None:
    def refuse(_: object) -> int:
        raise fault

    monkeypatch.setattr(bundle, "make", refuse)
    status, out, err = frt("bundle", "x")
    assert (status, out) == (1, "")
    assert (
        err
        == f"frt: x: {fault.strerror}\n  next: check the path, its permissions and the free space, then run it again\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_folder_that_is_shut_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    script = (
        "import os\nfrom pytest_frt.cli import main\nimport sys\nparts = [*sys.argv[1:]]\nos.setuid(65534)\n"
        "for name in ('keygen', 'bundle'):\n    print(main([name, *parts]), flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "shut/x"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "1"]
    assert done.stderr.count("Permission denied\n  next: ") == 2


@pytest.mark.parametrize("out", ["", ".", "/", "..", "there", "there/", "absent/key.pem"])
def test_place_that_is_no_name_of_a_key_is_a_usage_fault(frt: Frt, tmp_path: Path, out: str) -> None:
    (tmp_path / "there").mkdir()
    status, _, err = frt("keygen", out)
    assert status == 4
    assert "next: " in err
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("taken", ["k.pem", "k.pub"])
@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_pair_is_made_whole_or_not_at_all(frt: Frt, tmp_path: Path, taken: str, make: Callable[[Path], None]) -> None:
    make(tmp_path / taken)
    assert frt("keygen", "k.pem")[0] == 4
    assert [path.name for path in tmp_path.iterdir()] == [taken]


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_disk_that_fails_leaves_no_half_pair(
    frt: Frt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    calls, sync = [], os.fsync

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) == nth:
            raise OSError(28, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    status, _, err = frt("keygen", "k.pem")
    assert (status, list(tmp_path.iterdir())) == (StorageFault.exit_code, [])
    assert "No space left" in err
    assert len(calls) == nth


def test_passphrase_needs_somebody_to_ask(frt: Frt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: str) -> str:
        raise EOFError

    monkeypatch.setattr(getpass, "getpass", nobody)
    status, _, err = frt("keygen", "k.pem", "--passphrase")
    assert status == 4
    assert "--passphrase-file" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("line", ["list", "--help", "--version", "keygen k.pem"])
@pytest.mark.parametrize(
    ("to", "said"), [("> /dev/full", "No space left"), (">&-", "is closed")], ids=["full", "closed"]
)
def test_output_that_takes_nothing_is_one_message(tmp_path: Path, line: str, to: str, said: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{RUN} {line} {to}"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("frt: standard output")
    assert said in done.stderr
    assert done.stderr.count("\n") == 2


def test_interruption_is_no_traceback(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "make", stop)
    assert frt("bundle", "x") == (130, "", "")


@pytest.mark.parametrize(
    "line",
    [
        ["verify", "x", "--at", "x"],
        ["bundle", "x", "--check", "--at", "2026-13-01T00:00:00Z"],
        ["index", "build", "x", "--key", "k", "--expires", "x"],
        ["index", "revoke", "x", "--key", "k", "--reason", "r", "--payload", "zz"],
        ["index", "build", "x", "--key", "k", "--issuer", "a b"],
        ["trust", "init", "--owner", "a b"],
        ["trust", "add-key", "x", "--owner", "a/"],
        ["trust", "add-key", "x", "--owner", "a", "--rule", "a b"],
        ["trust", "add-key", "x", "--owner", "a", "--from", "2026-01-01"],
        ["trust", "add-key", "x", "--owner", "a", "--until", "2026-01-01"],
        ["trust", "revoke", "--reason", "r", "--payload", "zz"],
        ["trust", "revoke", "--reason", "r", "--tree", "A" * 64],
    ],
    ids=lambda line: "_".join(line[:2] + line[-2:]),
)
def test_mistyped_word_is_a_usage_fault(frt: Frt, line: list[str]) -> None:
    status, out, err = frt(*line)
    assert (status, out) == (UsageFault.exit_code, "")
    assert err.startswith(f"frt: {line[-2]}: ")
    assert "\n  next: " in err


def test_every_word_that_is_checked_is_an_option() -> None:
    from pytest_frt.cli import parser

    text, todo = set(), [parser()]
    while todo:
        for action in todo.pop()._actions:
            text |= {(action.dest, option) for option in action.option_strings}
            if isinstance(action.choices, dict):
                todo += action.choices.values()
    assert [one for one, (option, _, _) in words.READERS.items() if (one, option) not in text] == []


@pytest.mark.parametrize("code", sorted(codes.CODES))
def test_refusal_without_a_step_of_its_own_shows_that_of_its_code(
    frt: Frt, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def refused(hint: str) -> str:
        def refuse(_: object) -> int:
            raise CertificateRefused(code, "x differs", hint=hint)

        monkeypatch.setattr(bundle, "make", refuse)
        return frt("bundle", "x")[2]

    assert refused("") == f"frt: [{code}] x differs\n  next: {codes.next_step(code)}\n"
    assert refused("do this") == f"frt: [{code}] x differs\n  next: do this\n"


def test_other_faults_are_shown_as_they_are(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> int:
        raise FrtError("x differs")

    monkeypatch.setattr(bundle, "make", refuse)
    assert frt("bundle", "x") == (1, "", "frt: x differs\n")
