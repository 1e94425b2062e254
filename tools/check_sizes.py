"""Fail when a file or a function outgrows its budget: the maximum is held, not the mean."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from repo_tree import CODE_ROOTS, ROOT, files, python_files

FILE_LINES: Final = 300  # a reader holds one file in mind
FUNCTION_LINES: Final = 60  # the hard stop; beyond it a function has a second reason to change
USUAL_FUNCTION_LINES: Final = 40  # longer ones are named as a reminder
P95_LINES: Final = 35  # nineteen of twenty functions fit a screen
SOURCE_SUFFIXES: Final = frozenset({".py", ".c", ".cpp", ".cu", ".cuh", ".h", ".hpp"})


@dataclass(frozen=True, slots=True, order=True)
class FunctionSize:
    """Physical lines of one function, from its ``def`` to its last line."""

    lines: int
    where: str


def function_sizes(root: Path) -> list[FunctionSize]:
    """Measure every function of the Python files of ``root``, longest first."""
    sizes: list[FunctionSize] = []
    for path in python_files(root):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                sizes.append(FunctionSize(lines, f"{path.relative_to(root)}:{node.lineno} {node.name}"))
    return sorted(sizes, reverse=True)


def percentile(sizes: list[FunctionSize], share: float) -> int:
    """Return the lines that ``share`` of the functions do not exceed; ``sizes`` are sorted longest first."""
    return sizes[int(len(sizes) * (1 - share))].lines if sizes else 0


def long_files(root: Path) -> Iterator[str]:
    """Yield a message for each source file over its budget."""
    for path in files(root, CODE_ROOTS):
        if path.suffix in SOURCE_SUFFIXES:
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > FILE_LINES:
                yield f"{path.relative_to(root)} has {lines} lines, over {FILE_LINES}: split it"


def check(root: Path) -> list[str]:
    """Return every violation below ``root``, each with its place, its number and the limit."""
    sizes = function_sizes(root)
    found = list(long_files(root))
    found += [
        f"{size.where} has {size.lines} lines, over {FUNCTION_LINES}" for size in sizes if size.lines > FUNCTION_LINES
    ]
    p95 = percentile(sizes, 0.95)
    if p95 > P95_LINES:
        longest = ", ".join(size.where for size in sizes[:5])
        found.append(f"the 95th percentile of function length is {p95} lines, over {P95_LINES}; longest: {longest}")
    return found


def main() -> int:
    """Print what is over budget, remind of what is near it, and return the exit status."""
    found = check(ROOT)
    for size in function_sizes(ROOT):
        if USUAL_FUNCTION_LINES < size.lines <= FUNCTION_LINES:
            print(f"note: {size.where} has {size.lines} lines, usually at most {USUAL_FUNCTION_LINES}")
    for message in found:
        print(message, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
