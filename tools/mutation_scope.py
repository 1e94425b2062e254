"""Which tests can notice a change of a module: ``mutate.py`` runs no others."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDERS: Final = ("gates", "rules", "measure")
"""What is changed unless files are named; a test of any of them may notice."""
VERIFIER: Final = ("certs", "runtime")
"""Folders of the verifier; the tests of the folder itself may notice, and those of what is documented of it."""
DOCUMENTED: Final = "docs"
# What only many runs, many processes or gigabytes can see is seen there, at their price; a process of its own imports
# what is on disk, which is unchanged.
SLOW: Final = re.compile("simulation|large|race|lost_updates")
# One spoiled thing each, in milliseconds: what they see needs no slower test.
FIRST: Final = re.compile("published|vectors|accept|plan")
# These start processes or walk whole families: they are asked about their own module and no other.
OWN_ONLY: Final = re.compile("bundle|cli|codes|export|lookup|publish(?!ed)|schemas|state_file|strict")


def dotted(root: Path, path: Path) -> str:
    """Return the dotted name of a source file below ``root``."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _named(path: Path) -> Iterator[str]:
    """Yield every dotted name that importing a file may import, each with the packages around it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


@functools.cache
def _direct(root: Path, path: Path) -> frozenset[Path]:
    bases = [root.joinpath(*name.split(".")) for name in _named(path)]
    near = (file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py"))
    return frozenset(file for file in near if file.is_file())


def reached(root: Path, path: Path) -> frozenset[Path]:
    """Return the source files below ``root`` that importing ``path`` runs, itself included."""
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting += _direct(root, file)
    return frozenset(seen)


def _own(test: Path, path: Path) -> bool:
    return test.parent.name == path.parent.name and test.stem[5:].startswith(path.stem)


def tests_of(root: Path, path: Path) -> list[str]:
    """Return the test files that import a module: its own, those of its edges first, then the others of its folders."""
    folders = (path.parent.name, DOCUMENTED) if path.parent.name in VERIFIER else FOLDERS
    places = [root / "tests" / folder / below for folder in folders for below in ("", "vectors")]
    every = [file for place in places for file in sorted(place.glob("test_*.py"))]
    every = [file for file in every if not SLOW.search(file.stem) and path in reached(root, file)]
    every = [file for file in every if not OWN_ONLY.search(file.stem) or _own(file, path)]

    def place(file: Path) -> tuple[bool, bool, bool]:
        return not _own(file, path), not file.stem.endswith("_edges"), not FIRST.search(file.stem)

    return [str(file.relative_to(root)) for file in sorted(every, key=place)]
