"""Keep what fuzzing has found: ``python -m tests.fuzz.keep`` from the repository root, after ``tests.fuzz.run``.

Of the small inputs of each target, smallest first, those stay that take a step from line to line that neither the
published vectors nor a committed input takes.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.targets import TARGETS, seeds

CORPUS = Path(__file__).with_name("corpus")
WORK = Path(tempfile.gettempdir(), "pytest-frt-fuzz")
MAX_BYTES = 2_048
READERS = ("pytest_frt/certs/", "pytest_frt/rules/", "pytest_frt/spec/")

Step = tuple[str, int, int]


def steps(target: Callable[[bytes], None], data: bytes) -> set[Step]:
    """Return the steps between lines of the readers that an input takes."""
    found: set[Step] = set()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not any(part in name for part in READERS):
            return None
        if event == "line":
            found.add((name, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(before)
    return found


def keep(name: str) -> int:
    """Copy inputs of one target and return how many."""
    target, folder = TARGETS[name], CORPUS / name
    known = [
        *{seed for seed in seeds(name) if len(seed) < 32 * MAX_BYTES},
        *(path.read_bytes() for path in folder.iterdir()),
    ]
    reached = {step for data in known for step in steps(target, data)}
    small = [path.read_bytes() for path in (WORK / name).iterdir() if path.stat().st_size <= MAX_BYTES]
    kept = 0
    for data in sorted(set(small), key=lambda data: (len(data), data)):
        if new := steps(target, data) - reached:
            reached |= new
            kept += 1
            (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return kept


if __name__ == "__main__":
    for name in TARGETS:
        print(name, keep(name))  # noqa: T201 (a script)
