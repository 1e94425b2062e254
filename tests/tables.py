"""Pages that name tests row by row: what a row names is read here, and held against the files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

NOTHING = "nothing"
Node = tuple[str, str]
"""A file and a test function in it."""

_NODE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_WAIT = re.compile(r"^\| ([a-zA-Z ]+) \| (.+) \|$", re.MULTILINE)


def nodes(text: str) -> tuple[Node, ...]:
    """Return the tests that a cell names."""
    return tuple((file, test) for file, test in _NODE.findall(text))


def waits(text: str, until: str) -> set[str]:
    """Return what may be waited for: the first column of the table that stands before ``until``."""
    explained, _, _ = text.partition(until)
    return {name for name, _ in _WAIT.findall(explained)} - {"wait"}


def rows(text: str, letter: str, columns: int) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every row whose first is ``letter`` and a number.

    Raises:
        AssertionError: such a row has fewer cells.
    """
    row = re.compile(rf"\| ({letter}\d+) \|" + r" (.+?) \|" * (columns - 1))
    for line in re.findall(rf"^\| {letter}\d+ \|.*$", text, re.MULTILINE):
        found = row.fullmatch(line)
        assert found, f"not {columns} cells: {line}"
        yield found.groups()


@cache
def defined(file: Path) -> dict[str, bool]:
    """Return the test functions of a file, each with whether a mark may skip it."""
    if not file.is_file():
        return {}
    found = (node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef))
    return {
        one.name: any(mark.startswith("needs_") or "skipif" in mark for mark in map(ast.unparse, one.decorator_list))
        for one in found
        if one.name.startswith("test_")
    }


def faults(name: str, tests: Iterable[Node], said: str, repository: Path) -> Iterator[str]:
    """Yield what is wrong with the tests of a row: one that is not there, or may be skipped and is not told."""
    known: Mapping[Node, dict[str, bool]] = {node: defined(repository / node[0]) for node in tests}
    yield from (f"{name}: {file} has no {test}" for (file, test), found in known.items() if test not in found)
    if any(found.get(test) for (_, test), found in known.items()) and "(needs " not in said:
        yield f"{name}: a test that may be skipped is not told"


def unexplained(name: str, wait: str, explained: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with what a row waits for."""
    if wait not in {NOTHING, *explained}:
        yield f"{name}: waits for {wait}, which is not explained"


def tests_in(repository: Path, *globs: str) -> set[Node]:
    """Return every test of the files that the globs name."""
    files = {file for glob in globs for file in (repository / "tests").glob(glob)}
    return {(file.relative_to(repository).as_posix(), test) for file in files for test in defined(file)}
