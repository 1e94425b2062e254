"""Keep what fuzzing has found: ``python -m tests.fuzz.keep`` from the repository root, after ``tests.fuzz.run``.

For each target the engine picks the fewest and smallest inputs that reach everything that is reached; those that are
small, and no published vector, go to the committed corpus.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS, seeds

CORPUS = Path(__file__).with_name("corpus")
MAX_BYTES = 2_048
MAX_INPUTS = 25


def keep(target: str) -> int:
    """Copy inputs of one target and return how many."""
    known = set(seeds(target)) | {path.read_bytes() for path in (CORPUS / target).iterdir()}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "tests.fuzz.run", target, "-merge=1", folder], check=True)
        found = sorted((path.read_bytes() for path in Path(folder).iterdir()), key=lambda data: (len(data), data))
    new = [data for data in found if len(data) <= MAX_BYTES and data not in known][:MAX_INPUTS]
    for data in new:
        (CORPUS / target / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return len(new)


if __name__ == "__main__":
    for name in TARGETS:
        print(name, keep(name))  # noqa: T201 (a script)
