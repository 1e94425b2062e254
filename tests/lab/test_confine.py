"""A worker that takes too much memory ends itself."""

from __future__ import annotations

import subprocess
import sys

TAKE = """
import mmap, resource
from pathlib import Path
from pytest_frt.lab import confine
confine.be_first_to_go()
confine.limit_memory("{device}")
NORESERVE = 0x4000  # nothing is set aside, so that only the limit can refuse
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
try:
    mmap.mmap(-1, 1 << {bits}, flags=flags)
    print("taken", Path("/proc/self/oom_score_adj").read_text().strip())
except OSError as fault:
    print(fault.strerror)
"""


def take(bits: int, device: str) -> str:
    done = subprocess.run([sys.executable, "-c", TAKE.format(bits=bits, device=device)], capture_output=True, text=True)  # noqa: PLW1510 (what it says is looked at)
    return done.stdout.strip() or done.stderr


def test_what_is_free_can_be_taken_and_the_worker_goes_first() -> None:
    assert take(24, "cpu") == "taken 1000"


def test_more_than_there_is_cannot_be_taken() -> None:
    assert take(45, "cpu") == "Cannot allocate memory"


def test_job_on_a_gpu_is_not_bounded() -> None:
    assert take(45, "cuda").startswith("taken")
