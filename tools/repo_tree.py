"""The files of this repository that its checks read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CODE_ROOTS: Final = ("pytest_frt", "catalog", "impls", "hosts", "csrc", "tools", "tests", "examples", "benchmarks")
TEXT_ROOTS: Final = (*CODE_ROOTS, "docs", "changelog", ".ci")
TEXT_SUFFIXES: Final = frozenset(
    {".c", ".cfg", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".ini", ".j2", ".json", ".md", ".py", ".toml", ".txt", ".yaml"}
)
SKIPPED_FOLDERS: Final = frozenset({"__pycache__", ".git", ".venv", "frt-out", "frt-certs", "node_modules"})


def files(root: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    """Yield every file below ``folders`` of ``root``, sorted, caches and outputs of runs left out."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            inner = path.relative_to(root).parts
            if path.is_file() and not path.is_symlink() and SKIPPED_FOLDERS.isdisjoint(inner):
                yield path


def python_files(root: Path) -> Iterator[Path]:
    """Yield every Python file of the code folders of ``root``."""
    return (path for path in files(root, CODE_ROOTS) if path.suffix == ".py")


def text_files(root: Path) -> Iterator[Path]:
    """Yield every text file of ``root`` that is read by people: code, data, documents and the top-level files."""
    yield from (path for path in sorted(root.iterdir()) if path.is_file() and path.suffix in TEXT_SUFFIXES)
    yield from (path for path in files(root, TEXT_ROOTS) if path.suffix in TEXT_SUFFIXES)
