"""Let a process of ours yield the cores to others for a while, where its priority can be taken back afterwards."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

YIELDING: Final = 15
"""Niceness of a process that only prepares: it runs on cores that would be idle."""
_FREE: Final = 20  # RLIMIT_NICE counts down from here: 20 lets a process return to niceness 0


def restorable() -> bool:
    """Report whether a niceness that was raised can be lowered again to what this process has."""
    if sys.platform != "linux":
        return False
    if os.geteuid() == 0:
        return True
    allowed, _ = resource.getrlimit(resource.RLIMIT_NICE)
    return allowed == resource.RLIM_INFINITY or allowed >= _FREE - os.getpriority(os.PRIO_PROCESS, 0)


def lower(pid: int) -> None:
    """Make a process that was just started yield; it stays as it is where that could not be undone."""
    if restorable():
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, pid, max(YIELDING, os.getpriority(os.PRIO_PROCESS, 0)))


def restore(pid: int) -> bool:
    """Give every thread of a process the niceness of this one, and report whether each has it."""
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        # On Linux a thread has a niceness of its own, and hands it to the threads that it starts.
        for thread in Path(f"/proc/{pid}/task").iterdir() if restorable() else ():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), mine)
        return os.getpriority(os.PRIO_PROCESS, pid) == mine
    except (ProcessLookupError, FileNotFoundError, PermissionError):
        return False
