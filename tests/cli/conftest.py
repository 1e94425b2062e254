"""The command, run in this process in an empty directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.cli import main

Frt = Callable[..., tuple[int, str, str]]


@pytest.fixture
def frt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Frt:
    """Return a function that runs ``frt`` and returns exit status, output and error output."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        try:
            status = main([str(word) for word in words])
        except SystemExit as ended:
            status = int(ended.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return run
