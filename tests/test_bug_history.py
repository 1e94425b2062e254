"""docs/bug-history.md and the tests agree: each row names tests that exist or what it waits for; none is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import tables
from tests.tables import NOTHING, Node

COMMIT = re.compile(r"`([0-9a-f]{8})`")
ROWS, COMMITS = 60, 67


@dataclass(frozen=True, slots=True)
class Row:
    """One fault of the table.

    Attributes:
        commits: Where it was mended.
        planted: What the tests plant and what shows it.
        tests: Files and functions.
        wait: What the rest of it waits for.
    """

    commits: tuple[str, ...]
    planted: str
    tests: tuple[Node, ...]
    wait: str


def read(text: str) -> tuple[dict[str, Row], set[str]]:
    """Return the rows by id, and what may be waited for."""
    rows = {
        row: Row(tuple(COMMIT.findall(seen)), planted, tables.nodes(tests), wait)
        for row, seen, _, planted, tests, wait in tables.rows(text, "H", columns=6)
    }
    return rows, tables.waits(text, "## Rows")


def faults(rows: dict[str, Row], waits: Iterable[str], repository: Path) -> list[str]:
    """Return what is wrong with any row, each with its id."""
    out: list[str] = []
    for name, row in rows.items():
        out += tables.faults(name, row.tests, row.planted, repository)
        out += tables.unexplained(name, row.wait, waits)
        if not row.tests and row.wait == NOTHING:
            out.append(f"{name}: neither a test nor a wait")
        if row.tests and row.planted.startswith("nothing"):
            out.append(f"{name}: its tests plant nothing")
    return out


@pytest.fixture(scope="module")
def table(repository: Path) -> tuple[dict[str, Row], set[str]]:
    """Return what the page says."""
    return read((repository / "docs" / "bug-history.md").read_text(encoding="utf-8"))


def test_every_fault_has_its_row_in_order(table: tuple[dict[str, Row], set[str]]) -> None:
    rows, _ = table
    commits = [commit for row in rows.values() for commit in row.commits]
    assert list(rows) == [f"H{number:02}" for number in range(1, ROWS + 1)]
    assert len(commits) == len(set(commits)) == COMMITS


def test_every_row_names_tests_that_exist_or_what_it_waits_for(
    table: tuple[dict[str, Row], set[str]], repository: Path
) -> None:
    assert faults(*table, repository) == []


def test_every_wait_is_waited_for(table: tuple[dict[str, Row], set[str]]) -> None:
    rows, waits = table
    assert {row.wait for row in rows.values()} - {NOTHING} == waits


def test_every_test_of_the_history_stands_in_a_row(table: tuple[dict[str, Row], set[str]], repository: Path) -> None:
    named = {node for row in table[0].values() for node in row.tests}
    there = tables.tests_in(repository, "cases/test_history_*.py")
    assert there
    assert there - named == set()


SPOILS = {
    "test_of_another_name": ("test_x.py::test_a", "test_x.py::test_b", "has no test_b"),
    "file_that_is_gone": ("test_x.py::test_a", "test_y.py::test_a", "has no test_a"),
    "no_test_and_no_wait": ("`tests/test_x.py::test_a`", "none yet", "neither a test nor a wait"),
    "wait_without_a_word": ("nothing |", "some day |", "waits for some day"),
    "nothing_planted": ("noise", "nothing yet", "plant nothing"),
    "skip_that_is_not_told": ("test_x.py::test_a", "test_x.py::test_gpu", "may be skipped"),
}
LINE = "| H01 | `0123abcd` | wrong | noise | `tests/test_x.py::test_a` | nothing |"


@pytest.mark.parametrize(("old", "new", "fault"), SPOILS.values(), ids=SPOILS)
def test_spoiled_row_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    (tmp_path / "tests").mkdir()
    source = "def test_a(): ...\n@needs_gpu\ndef test_gpu(): ...\n"
    (tmp_path / "tests" / "test_x.py").write_text(source, encoding="utf-8")
    assert faults(*read(LINE), tmp_path) == []
    (found,) = faults(*read(LINE.replace(old, new)), tmp_path)
    assert found.startswith("H01: ")
    assert fault in found
