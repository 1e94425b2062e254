"""What every test gets: no network, few threads, the repository root, small trees; and the tally of the mutants."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

# Read by libraries when they are first imported, so they are set before any test module is.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads of two test processes slow each other 20-fold

ALONE = ("adversaries/", "cli/test_bench.py", "fixtures/", "lab/test_timing", "plugin/test_where.py")
"""Beginnings of paths below this folder: what takes time, and what is counted in one process."""

WriteTree = Callable[[Mapping[str, str]], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what may not share the machine with other tests; see the Makefile."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).as_posix().startswith(ALONE):
            item.add_marker("alone")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many mutants were refused, of those that ran, in whichever processes they did."""
    import mutant_table

    reports = [
        report for group in terminalreporter.stats.values() for report in group if hasattr(report, "user_properties")
    ]
    for line in mutant_table.summary(mutant_table.rows(reports)):
        terminalreporter.write_line(line)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that opens a connection beyond this machine's own sockets."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX:
            pytest.fail(f"a test opened a network connection to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep what an attach remembers out of the user's own state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(autouse=True)
def _own_threads() -> Iterator[None]:
    """Give the next test the thread count that this one found: a host that is loaded in the process sets its own."""
    torch = sys.modules.get("torch")
    before = torch and torch.get_num_threads()
    yield
    if torch and torch.get_num_threads() != before:
        torch.set_num_threads(before)


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the clone or unpacked source distribution under test."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def write_tree(tmp_path: Path) -> WriteTree:
    """Return a function that writes files by relative path under a fresh folder and returns that folder."""

    def write(content: Mapping[str, str]) -> Path:
        for name, text in content.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write
