"""The pages of the specification name every code and every member, and nothing that is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import code_table
import pytest

from pytest_frt.certs.codes import CODES

SPEC = Path(__file__).parents[2] / "docs" / "spec"
VERIFICATION = (SPEC / "verification.md").read_text(encoding="utf-8")
PREDICATE = (SPEC / "predicate.md").read_text(encoding="utf-8")


OF_THE_INSTALLATION = {"KERNEL_REFUSED", "KERNEL_UNAVAILABLE", "PROVIDER", "SPEC", "USAGE"}
"""What is wrong with what is installed, and not with a certificate: the table of codes has them, no step does."""


def members(node: object) -> Iterator[str]:
    """Yield the members that a schema names."""
    if isinstance(node, dict):
        yield from node.get("properties", {})
        for inner in node.values():
            yield from members(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from members(inner)


def test_table_of_codes_is_that_of_the_register() -> None:
    assert code_table.page() == VERIFICATION, "run: python tools/code_table.py"


def test_every_code_has_one_row_and_every_row_a_code() -> None:
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \|", VERIFICATION, re.MULTILINE)
    assert sorted(rows) == sorted(CODES)


@pytest.mark.parametrize("page", [VERIFICATION.partition("## Every code")[0], PREDICATE], ids=["steps", "predicate"])
def test_codes_in_the_text_exist(page: str) -> None:
    words = set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]*)*\*?)`", page)) - {"PASSED", "FAILED"}
    assert words
    assert [word for word in sorted(words) if not any(fnmatchcase(code, word) for code in CODES)] == []


def test_every_step_that_refuses_is_told_with_its_codes() -> None:
    told = {int(row[0]): row[1] for row in re.findall(r"^\| (\d+) .*\| ([^|]+) \|$", VERIFICATION, re.MULTILINE)}
    for code in CODES.values():
        if code.step and code.name not in OF_THE_INSTALLATION:
            assert any(fnmatchcase(code.name, word) for word in re.findall(r"`([^`]+)`", told[code.step])), code


@pytest.mark.parametrize("schema", sorted(path.name for path in SPEC.glob("*.schema.json")))
def test_every_member_of_a_schema_is_explained(schema: str) -> None:
    names = set(members(json.loads((SPEC / schema).read_text(encoding="utf-8"))))
    assert [name for name in sorted(names) if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", PREDICATE)] == []
