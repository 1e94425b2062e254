"""Every refusal code of the sources is in the register, and every registered code is given somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_frt
from pytest_frt.certs.codes import CODES, STEPS, next_step

SOURCES = Path(pytest_frt.__file__).parent
WORD = re.compile(r"[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*")
REFUSALS = {
    "BadSet",
    "CertificateRefused",
    "FileDecision",
    "IdentityRefused",
    "Refused",
    "Reject",
    "SeatDecision",
    "TreeInvalid",
}
FOLDERS = ("certs", "runtime")
NO_CODES = {"FAILED", "IMPL", "PASSED", "RECORD", "WARNED", "XDG_STATE_HOME"}
"""Words in capitals that the two folders use for something else."""


def given(path: Path) -> Iterator[str]:
    """Yield words in capitals: all of a folder where they are codes, elsewhere what a refusal is built with."""
    everything = path.relative_to(SOURCES).parts[0] in FOLDERS and not path.stem.startswith("codes")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    exported = {id(one) for node in tree.body if _is_all(node) for one in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and everything and id(node) not in exported:
            values: list[ast.expr] = [node]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFUSALS:
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
        else:
            continue
        words = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        yield from (word for word in words if WORD.fullmatch(word) and word not in NO_CODES)


def faults(path: Path) -> Iterator[str]:
    """Yield the codes of error classes; those that a deployer can meet are registered too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "code":
            yield str(ast.literal_eval(node.value)) if isinstance(node.value, ast.Constant) else ""


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


FOUND = {code: path.name for path in sorted(SOURCES.rglob("*.py")) for code in given(path)}
FAULTS = {code for path in SOURCES.rglob("*.py") for code in faults(path)}


@pytest.mark.parametrize("code", sorted(FOUND))
def test_code_of_the_sources_is_registered(code: str) -> None:
    assert code in CODES, f"{FOUND[code]} gives {code}: add it to pytest_frt/certs/codes_*.py"


@pytest.mark.parametrize("code", sorted(CODES))
def test_registered_code_is_given_and_says_what_to_do(code: str) -> None:
    entry = CODES[code]
    assert code in FOUND or code in FAULTS
    assert entry.step in STEPS
    assert entry.meaning
    assert next_step(code) == entry.action != ""


def test_scan_finds_a_code_that_is_not_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCES", tmp_path)
    (tmp_path / "certs").mkdir()
    planted = tmp_path / "certs" / "new.py"
    planted.write_text('raise CertificateRefused("BRAND_NEW", "x")\n')
    assert set(given(planted)) == {"BRAND_NEW"}
    assert next_step("BRAND_NEW") == ""
