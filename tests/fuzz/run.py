"""Fuzz one target, guided by coverage: ``python -m tests.fuzz.run TARGET [engine options]``, from the repository root.

Needs the extra ``fuzz``. New inputs go to ``pytest-frt-fuzz/<target>`` in the temporary folder; what fails is written
to ``pytest-frt-fuzz/found``.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["pytest_frt.certs", "pytest_frt.rules", "pytest_frt.spec", "pytest_frt.cell"]):
    from tests.fuzz.targets import TARGETS, seeds

from tests.fuzz import mutate

LIMITS = ("-max_len=65536", "-timeout=10", "-rss_limit_mb=1024")
CORPUS = Path(__file__).with_name("corpus")
WORK = Path(tempfile.gettempdir(), "pytest-frt-fuzz")
BY_LINES = frozenset({"policy", "set"})


def mutator(name: str) -> Callable[[bytes, int, int], bytes]:
    """Return the target's mutator: half of the time a change of the document, else one of bytes."""

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        made = None if seed % 2 else mutate.lines(data, seed) if name in BY_LINES else mutate.document(data, seed)
        return atheris.Mutate(data, max_size) if made is None else made[:max_size]

    return change


def main(argv: list[str]) -> None:
    name, *options = argv
    work, found, words = WORK / name, WORK / "found", WORK / f"{name}.dict"
    for folder in (work, found):
        folder.mkdir(parents=True, exist_ok=True)
    given = list(seeds(name))
    for seed in given:
        (work / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
    words.write_text("\n".join(mutate.words(given)), encoding="ascii")
    fixed = [f"-artifact_prefix={found}/", f"-dict={words}"]
    folders = [str(folder) for folder in (work, CORPUS / name) if folder.is_dir()]
    atheris.Setup([name, *LIMITS, *fixed, *options, *folders], TARGETS[name], custom_mutator=mutator(name))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
