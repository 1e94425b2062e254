"""docs/cases.md and the tests agree: every case has a test, every named test exists, every marked test is named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import tables
from tests.tables import Node

CASES = [f"C{number:02}" for number in range(1, 35)]
GPU = {"C23": "needs a cuda device", "C24": "two cuda devices"}
Table = dict[str, tuple[str, tuple[Node, ...]]]


@pytest.fixture(scope="module")
def table(repository: Path) -> Table:
    """Return case to its outcome and its (file, function) pairs."""
    text = (repository / "docs" / "cases.md").read_text(encoding="utf-8")
    return {case: (outcome, tables.nodes(tests)) for case, _, tests, outcome in tables.rows(text, "C", columns=4)}


def functions(file: Path) -> dict[str, set[str]]:
    """Return test function to the cases it is marked with."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
            marks = [one for one in calls if ast.unparse(one.func) == "pytest.mark.case"]
            found[node.name] = {ast.literal_eval(one.args[0]) for one in marks}
    return found


def test_every_case_has_its_row_in_order(table: Table) -> None:
    assert list(table) == CASES


@pytest.mark.parametrize("case", CASES)
def test_every_test_of_a_case_exists(table: Table, repository: Path, case: str) -> None:
    outcome, nodes = table[case]
    assert nodes
    assert [node for node in nodes if node[1] not in functions(repository / node[0])] == []
    assert GPU.get(case, "") in outcome.lower()


def test_every_marked_test_stands_in_its_row(table: Table, repository: Path) -> None:
    marked = {
        (case, str(file.relative_to(repository)), name)
        for file in sorted((repository / "tests").rglob("test_*.py"))
        for name, cases in functions(file).items()
        for case in cases
    }
    named = {(case, file, name) for case, (_, nodes) in table.items() for file, name in nodes}
    assert marked - named == set()
    assert {one for one in named if one[1].startswith("tests/cases/")} - marked == set()


def test_a_row_without_a_test_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text("@pytest.mark.case('C99')\ndef test_a(): ...\n")
    assert functions(file) == {"test_a": {"C99"}}
    assert tables.nodes("`tests/a/test_b.py::test_c`, text") == (("tests/a/test_b.py", "test_c"),)
