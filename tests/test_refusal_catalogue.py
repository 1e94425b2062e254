"""docs/refusals.md and the tests agree: each refusal names tests that exist or what it waits for; none is left out."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import tables
from tests.tables import NOTHING, Node

AREA = re.compile(r"^\| ([\w, ]+) \| ([^|]+) \| ((?:`tests/|none)[^|]*) \|$", re.MULTILINE)
AREAS = 28
NOT_TAKEN_UP = ("not refused: ", "not here: ")
"""How the sentence of a row begins that has no refusal on purpose."""
FAMILIES = (
    "test_door.py",
    "impls/test_bind.py",
    "impls/test_envelope_edges.py",
    "registry/*.py",
    "seat/test_bind.py",
    "seat/test_calibrate.py",
    "seat/test_discover*.py",
    "seat/test_kernels.py",
    "seat/test_look_alikes.py",
    "seat/test_observe.py",
    "seat/test_swap*.py",
    "spec/test_load.py",
    "spec/test_pipelines.py",
)
"""Where tests of refusals live, beside the cases and the gates, which have tables of their own."""
REFUSES = ("refused", "unavailable", "is_named", "is_an_error")
"""What names of such tests hold."""
BINDS = ("pytest_frt/seat/bind.py", "impls/_shared/seat_envelope.py", "impls/_shared/hub_ops.py")
"""Sources whose every reason of a refusal is a word of the page."""


@dataclass(frozen=True, slots=True)
class Row:
    """One refusal of the table.

    Attributes:
        area: Area it belongs to.
        said: Our word and sentence.
        tests: Files and functions.
        wait: What the rest of it waits for.
    """

    area: str
    said: str
    tests: tuple[Node, ...]
    wait: str


@dataclass(frozen=True, slots=True)
class Page:
    """What the page says: refusals by id, areas with the tests of what they admit, and what may be waited for."""

    rows: dict[str, Row]
    admitted: dict[str, tuple[Node, ...]]
    waits: set[str]

    @classmethod
    def of(cls, text: str) -> Page:
        """Read the page."""
        rows = {
            row: Row(area, said, tables.nodes(tests), wait)
            for row, area, _, said, tests, wait in tables.rows(text, "R", columns=6)
        }
        admitted = {area: tables.nodes(tests) for area, _, tests in AREA.findall(text)}
        return cls(rows, admitted, tables.waits(text, "## Areas"))

    def faults(self, repository: Path) -> list[str]:
        """Return what is wrong with any row or area, each with its name."""
        out: list[str] = []
        for name, row in self.rows.items():
            out += tables.faults(name, row.tests, row.said, repository)
            out += tables.unexplained(name, row.wait, self.waits)
            if row.area not in self.admitted:
                out.append(f"{name}: area {row.area} is not explained")
            if not row.tests and row.wait == NOTHING and not row.said.startswith("not here: "):
                out.append(f"{name}: neither a test nor a wait")
        for area, nodes in self.admitted.items():
            out += tables.faults(area, nodes, "(needs what its refusals need)", repository)
            own = [row for row in self.rows.values() if row.area == area]
            if not own:
                out.append(f"{area}: has no refusal")
            shown = any(row.wait == NOTHING and not row.said.startswith(NOT_TAKEN_UP) for row in own)
            if shown and not nodes:
                out.append(f"{area}: refuses, and names nothing that it admits")
        return out


@pytest.fixture(scope="module")
def page(repository: Path) -> Page:
    """Return what the page says."""
    return Page.of((repository / "docs" / "refusals.md").read_text(encoding="utf-8"))


def test_every_refusal_has_its_row_in_order(page: Page) -> None:
    assert list(page.rows) == [f"R{number:03}" for number in range(1, len(page.rows) + 1)]
    assert list(dict.fromkeys(row.area for row in page.rows.values())) == list(page.admitted)
    assert len(page.admitted) == AREAS


def test_every_row_names_tests_that_exist_or_what_it_waits_for(page: Page, repository: Path) -> None:
    assert page.faults(repository) == []


def test_every_wait_is_waited_for(page: Page) -> None:
    assert {row.wait for row in page.rows.values()} - {NOTHING} == page.waits


def test_every_test_of_a_refusal_stands_in_a_row(page: Page, repository: Path) -> None:
    named = {node for row in page.rows.values() for node in row.tests}
    there = {node for node in tables.tests_in(repository, *FAMILIES) if any(word in node[1] for word in REFUSES)}
    assert there
    assert there - named == set()


def reasons(source: str) -> set[str]:
    """Return the reasons of the refusals that a file makes: the first text given to what makes one."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    made = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in {"refuse", "_refusal"}]
    texts = ([arg.value for arg in node.args if isinstance(arg, ast.Constant)] for node in made)
    return {text[0] for text in texts if text}


def test_every_reason_of_a_bind_is_a_word_of_the_page(page: Page, repository: Path) -> None:
    said = "".join(row.said for row in page.rows.values())
    found = {reason for file in BINDS for reason in reasons((repository / file).read_text(encoding="utf-8"))}
    assert {"device", "envelope", "places", "rows", "scale", "scales", "variant"} <= found
    assert {reason for reason in found if f"`{reason}`" not in said} == set()


SPOILS = {
    "test_of_another_name": ("test_x.py::test_a", "test_x.py::test_b", "R001: tests/test_x.py has no test_b"),
    "admitted_by_nobody": ("test_x.py::test_ok", "test_x.py::test_no", "toys: tests/test_x.py has no test_no"),
    "nothing_admitted": ("`tests/test_x.py::test_ok`", "none", "toys: refuses, and names nothing that it admits"),
    "no_test_and_no_wait": ("`tests/test_x.py::test_a`", "none", "R001: neither a test nor a wait"),
    "wait_without_a_word": ("nothing |", "some day |", "R001: waits for some day, which is not explained"),
    "skip_that_is_not_told": ("test_x.py::test_a", "test_x.py::test_gpu", "R001: a test that may be skipped is not"),
    "area_of_another_name": ("| R001 | toys", "| R001 | toy", "R001: area toy is not explained"),
}
TEXT = """
| toys | what they are | `tests/test_x.py::test_ok` |

| R001 | toys | a toy is broken | `broken`: "it is" | `tests/test_x.py::test_a` | nothing |
"""


@pytest.mark.parametrize(("old", "new", "fault"), SPOILS.values(), ids=SPOILS)
def test_spoiled_row_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    (tmp_path / "tests").mkdir()
    source = "def test_a(): ...\ndef test_ok(): ...\n@needs_gpu\ndef test_gpu(): ...\n"
    (tmp_path / "tests" / "test_x.py").write_text(source, encoding="utf-8")
    assert Page.of(TEXT).faults(tmp_path) == []
    assert any(one.startswith(fault) for one in Page.of(TEXT.replace(old, new)).faults(tmp_path))


def test_row_that_lacks_a_cell_is_not_passed_over() -> None:
    with pytest.raises(AssertionError, match=r"not 6 cells: [|] R001 [|] toys"):
        Page.of(TEXT.replace(" | nothing |", " |"))


def test_sentence_that_says_it_is_not_here_needs_no_test(tmp_path: Path) -> None:
    absent = TEXT.replace('`broken`: "it is" | `tests/test_x.py::test_a`', "not here: toys do not break | none")
    assert "R001: neither a test nor a wait" not in Page.of(absent).faults(tmp_path)
    refused = absent.replace("not here: ", "not refused: ")
    assert "R001: neither a test nor a wait" in Page.of(refused).faults(tmp_path)
