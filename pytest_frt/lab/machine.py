"""What the judge reads of the machine around a timed region: steal time, CPU pressure and memory (Linux)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_KIB: Final = 1024
_STEAL: Final = 8  # column of the first line of /proc/stat, the label being column 0


@dataclass(frozen=True, slots=True)
class Load:
    """Seconds of wall clock, stolen CPU and CPU stall: since boot in a reading, elapsed in a difference."""

    wall_s: float
    steal_s: float
    stall_s: float

    @classmethod
    def now(cls) -> Self:
        """Read the counters; what a machine does not report is 0."""
        return cls(time.monotonic(), _steal(), _stall())

    def since(self, began: Load) -> Load:
        """Return what elapsed since an earlier reading."""
        return Load(self.wall_s - began.wall_s, self.steal_s - began.steal_s, self.stall_s - began.stall_s)

    def plus(self, other: Load) -> Load:
        """Return the sum of two differences."""
        return Load(self.wall_s + other.wall_s, self.steal_s + other.steal_s, self.stall_s + other.stall_s)

    @property
    def pressure(self) -> float:
        """Share of the wall time in which some task waited for a CPU."""
        return self.stall_s / self.wall_s if self.wall_s > 0 else 0.0


def _steal() -> float:
    fields = _text("/proc/stat").partition("\n")[0].split()
    return int(fields[_STEAL]) / os.sysconf("SC_CLK_TCK") if len(fields) > _STEAL else 0.0


def _stall() -> float:
    some = _text("/proc/pressure/cpu").partition("\n")[0]
    return int(some.rpartition("total=")[2]) / 1e6 if "total=" in some else 0.0


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:  # a container may hide it, an older kernel may lack it
        return ""


def _kib(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * _KIB
    return 0


def available_bytes() -> int:
    """Return the memory that can be given out without swapping."""
    return _kib(_text("/proc/meminfo"), "MemAvailable")


def writable_bytes() -> int:
    """Return what this process has mapped privately and may write to, touched or not: what ``RLIMIT_DATA`` counts."""
    return _kib(_text("/proc/self/status"), "VmData")


@dataclass(frozen=True, slots=True)
class Resident:
    """Memory of one process, bytes: ``private`` is its own, ``file`` is shared with others that map the same files."""

    private: int
    file: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """Read it from the kernel."""
        text = _text(f"/proc/{pid}/status")
        return cls(_kib(text, "RssAnon") + _kib(text, "RssShmem"), _kib(text, "RssFile"))

    def fitting(self, available: float) -> int:
        """Return how many such processes fit into ``available`` bytes, the files counted once."""
        return max(0, int((available - self.file) // max(1, self.private)))
