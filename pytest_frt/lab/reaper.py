"""Find, kill and reap processes that code under test started, wherever it hid them (Linux)."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pytest_frt.errors import FrtError

MARK: Final = "FRT_LAB"
"""Environment variable that every process of one lab inherits."""
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_POLL_S: Final = 0.005
_KILL_LIMIT_S: Final = 10.0  # a process in uninterruptible sleep dies when its disk answers


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise FrtError(
            f"prctl({option}) failed: {os.strerror(ctypes.get_errno())}", hint="workers need Linux 3.4 or later"
        )


def become_subreaper() -> None:
    """Inherit every descendant whose parent dies, so that a double fork cannot escape.

    Raises:
        FrtError: the kernel has no such option.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, int]]:
    """Yield process id and parent id of every process that is not a zombie."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                text = Path(entry.path, "stat").read_text(errors="replace")
            except OSError:  # it ended while the folder was read
                continue
            state, parent = text.rpartition(")")[2].split()[:2]
            if state not in "ZX":
                yield int(entry.name), int(parent)


def descendants(pid: int, spare: frozenset[int] = frozenset()) -> list[int]:
    """Return the ids of all live processes below ``pid``, less those of ``spare`` and what is below them."""
    children: dict[int, list[int]] = {}
    for process, parent in _processes():
        children.setdefault(parent, []).append(process)
    found, todo = [], [pid]
    while todo:
        below = [child for child in children.get(todo.pop(), []) if child not in spare]
        found += below
        todo += below
    return found


def marked(mark: str) -> list[int]:
    """Return the live processes whose environment carries ``mark``: those of one lab, whoever their parent is now."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for process, _ in _processes():
        try:
            names = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:  # ended meanwhile, or another user's
            continue
        if needle in names and process != os.getpid():
            found.append(process)
    return found


def reap() -> None:
    """Collect every dead child of this process without waiting."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def kill(pids: list[int]) -> None:
    """Send SIGKILL to each; those that ended meanwhile are fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _kill_all(find: Callable[[], list[int]]) -> list[int]:
    killed: set[int] = set()
    deadline = time.monotonic() + _KILL_LIMIT_S
    while left := find():
        killed.update(left)
        kill(left)
        if time.monotonic() > deadline:
            raise FrtError(
                f"processes {left} outlive SIGKILL by {_KILL_LIMIT_S:.0f} s", hint="look for a hung device or disk"
            )
        time.sleep(_POLL_S)
    return sorted(killed)


def kill_descendants(spare: frozenset[int] = frozenset()) -> None:
    """Kill and reap everything below this process except ``spare``, until nothing is left.

    Raises:
        FrtError: a process outlives SIGKILL.
    """
    _kill_all(lambda: descendants(os.getpid(), spare))
    reap()


def kill_marked(mark: str) -> list[int]:
    """Kill every process that carries ``mark`` until none is left, and return the ids.

    Raises:
        FrtError: a process outlives SIGKILL.
    """
    killed = _kill_all(lambda: marked(mark))
    time.sleep(_POLL_S)  # a process shows no environment while it is being exec'ed
    return sorted({*killed, *_kill_all(lambda: marked(mark))})


def wait_exit(pid: int, limit_s: float) -> int | None:
    """Wait for a child and return its exit status (negative: killed by that signal), or None when the limit passed."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if not poll.poll(limit_s * 1000):
            return None
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def settle(grace_s: float) -> list[int]:
    """Give the processes below this one ``grace_s`` seconds to end, reap them, and return those that did not."""
    deadline = time.monotonic() + grace_s
    while True:
        reap()
        left = descendants(os.getpid())
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(_POLL_S)
