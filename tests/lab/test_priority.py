"""A process yields only where its priority can be taken back, and is used only when it was."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator

import pytest

from pytest_frt.lab import priority


@pytest.fixture
def pid() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "60"])  # noqa: S607
    yield process.pid
    process.kill()
    process.wait()


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def test_what_yielded_is_given_back(pid: int) -> None:
    mine = niceness(0)
    priority.lower(pid)
    assert niceness(pid) == (max(mine, priority.YIELDING) if priority.restorable() else mine)
    assert priority.restore(pid)
    assert niceness(pid) == mine


def test_nothing_yields_where_that_is_for_good(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "restorable", lambda: False)
    priority.lower(pid)
    assert niceness(pid) == niceness(0)
    assert priority.restore(pid)


def test_what_still_yields_is_not_used(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, min(19, niceness(0) + 5))
    monkeypatch.setattr(priority, "restorable", lambda: False)
    assert not priority.restore(pid)


def test_refused_permission_and_a_dead_process_are_told(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError(1, "no")

    monkeypatch.setattr(priority, "restorable", lambda: True)
    monkeypatch.setattr(os, "setpriority", refuse)
    assert not priority.restore(pid)
    assert not priority.restore(1 << 22)


@pytest.mark.parametrize(
    ("user", "limit", "can"),
    [(0, 0, True), (1000, 0, False), (1000, 19, False), (1000, 20, True), (1000, resource.RLIM_INFINITY, True)],
)
def test_who_can_take_priority_back(monkeypatch: pytest.MonkeyPatch, user: int, limit: int, can: bool) -> None:  # noqa: FBT001
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert priority.restorable() is can
