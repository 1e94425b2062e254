"""What a worker may take of the machine, so that code under test that takes all of it ends itself and nobody else."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_frt.lab.machine import available_bytes, writable_bytes

_FIRST_TO_GO: Final = "1000"
"""Highest value of ``oom_score_adj``: when memory runs out all the same, the kernel ends the worker, not the judge."""


def be_first_to_go() -> None:
    """Offer this process and what it starts when the kernel has to end one for want of memory."""
    with suppress(OSError):  # a container may have made it read-only; the judge is then as likely to go as before
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def limit_memory(device: str) -> None:
    """Let this process allocate what is free now, and no more: a bomb then meets ``MemoryError``.

    Only on a CPU: the driver of a GPU maps memory of its own, and not all of them were looked at.

    Args:
        device: torch device string of the job.
    """
    free = available_bytes()
    if device != "cpu" or not free:
        return
    limit = free + writable_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
