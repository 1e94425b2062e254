"""Every test that the threat model names exists, and every attack it calls defended names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py(?:::\w+)?)`", PAGE)))


def exists(named: str) -> bool:
    path, _, test = named.partition("::")
    if not (TESTS / path).is_file():
        return False
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return not test or test in tests


@pytest.mark.parametrize("named", NAMED)
def test_named_test_exists(named: str) -> None:
    assert exists(named)


def test_a_test_that_is_not_there_would_show() -> None:
    assert not exists("docs/test_threat_model.py::test_that_nobody_wrote")
    assert not exists("docs/test_nothing.py")


def test_every_defence_names_its_test() -> None:
    rows = PAGE.partition("### Defended")[2].partition("### Not defended")[0].splitlines()
    attacks = [row for row in rows if row.startswith("| ") and not row.startswith("| attack |")]
    assert len(attacks) > 15
    assert [row for row in attacks if not re.search(r"`[\w/]+\.py", row.split("|")[4])] == []
