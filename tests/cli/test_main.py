"""The front of the command: usage faults have the exit code of ours, and nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

Frt = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("words", [["lst"], [], ["list", "hots"], ["publish"]], ids=["typo", "none", "kind", "no_path"])
def test_usage_fault_is_exit_4(frt: Frt, words: list[str]) -> None:
    status, out, err = frt(*words)
    assert (status, out) == (4, "")
    assert "error: " in err


def test_fault_is_one_message_with_its_next_step(frt: Frt) -> None:
    status, _, err = frt("verify", "certs")
    assert status == 4
    assert err.startswith("frt: frt-trust.toml")
    assert "Traceback" not in err


def test_help_names_every_command(frt: Frt) -> None:
    status, out, _ = frt("--help")
    assert status == 0
    for command in ("list", "explain", "doctor", "keygen", "sign", "verify", "trust", "replay", "compare"):
        assert f"\n    {command} " in out


def test_version(frt: Frt) -> None:
    assert frt("--version")[1].startswith("pytest-frt 0.")


@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["verify", "x"], ["explain", "a-b-c-d-e"]])
def test_command_imports_neither_torch_nor_pytest(words: list[str]) -> None:
    script = (
        "import sys\nfrom pytest_frt.cli import main\nmain(sys.argv[1:])\nprint({'torch', 'pytest'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_reader_that_leaves_early_is_no_fault() -> None:
    code = f"{sys.executable} -c 'from pytest_frt.cli import main; raise SystemExit(main([\"list\"]))' | head -1"
    done = subprocess.run(["/bin/sh", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
