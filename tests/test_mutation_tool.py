"""The mutation tool: what it changes, which tests it runs, and that a weak test lets its mutants live."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import mutate
import pytest
from mutation_operators import CHECKS, mutants
from mutation_scope import tests_of as scope
from repo_tree import ROOT

JUDGE = "def judge(x: float) -> bool:\n    return x > 0\n"
WEAK = "from pytest_frt.gates.toy import judge\n\ndef test_judge():\n    assert judge(1) and not judge(-1)\n"


def becomes(line: str) -> set[str]:
    return {one.after for one in mutants(f"def f(x, y):\n    {line}\n")}


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("return x <= y", {"return (x < y)", "return (x > y)", "return None"}),
        ("return x and y", {"return (x or y)", "return (x)", "return (y)", "return None"}),
        ("if x == 1: raise ValueError(3)", {"if (x != 1): raise ValueError(3)", "if x == 1: pass"}),
        ("if x < 1: pass", {"if (not x < 1): pass", "if True: pass", "if False: pass", "if x < 2: pass"}),
        ("x = max(y, 0.5)", {"x = (min(y, 0.5))", "x = max(y, 1.0)", "x = max(y, 0.25)"}),
        ("x += y * 2", {"x -= y * 2", "pass", "x += (y / 2)", "x += y * 3"}),
        ("for x in y: continue", {"for x in (): continue", "for x in y: break", "for x in y: pass"}),
        ("x = zip(y, strict=True)", {"x = zip(y, strict=False)"}),
        ("return -x", {"return (x)"}),
        ('y = "no_win"', {"y = 'no_win_'"}),
    ],
)
def test_what_becomes_of_a_line(line: str, changed: set[str]) -> None:
    assert changed <= becomes(line)


@pytest.mark.parametrize("line", ['raise ValueError("no_win", 3)', 'x: "int" = y', 'x = f"{y} of 3"'])
def test_messages_and_annotations_stay(line: str) -> None:
    assert becomes(line) <= {"pass"}


def test_own_tests_come_first_and_strangers_not_at_all() -> None:
    files = scope(ROOT, ROOT / "pytest_frt" / "rules" / "fold.py")
    assert files[:2] == ["tests/rules/test_fold_edges.py", "tests/rules/test_fold.py"]
    assert "tests/gates/test_order.py" in files
    assert "tests/rules/test_exact.py" not in files


def test_the_verifier_is_held_by_the_tests_of_its_own_folder() -> None:
    files = scope(ROOT, ROOT / "pytest_frt" / "certs" / "gates.py")
    assert files[:2] == ["tests/certs/test_gates_edges.py", "tests/certs/test_gates.py"]
    assert "tests/certs/test_vectors.py" in files
    assert "tests/certs/vectors/test_published.py" in files
    assert {Path(file).parts[1] for file in files} == {"certs"}
    assert "tests/certs/test_publish.py" not in files
    assert "tests/certs/test_publish.py" in scope(ROOT, ROOT / "pytest_frt" / "certs" / "publish.py")
    assert "tests/runtime/test_match.py" in scope(ROOT, ROOT / "pytest_frt" / "runtime" / "match.py")
    assert "tests/docs/test_spec.py" in scope(ROOT, ROOT / "pytest_frt" / "certs" / "codes_form.py")


def test_a_weak_test_lets_its_mutants_live(tmp_path: Path) -> None:
    for name, text in (("pytest_frt/gates/toy.py", JUDGE), ("tests/gates/test_toy.py", WEAK)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    out = tmp_path / "out.jsonl"
    command = [sys.executable, mutate.__file__, "--cold", f"--root={tmp_path}", f"--out={out}"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert {row["after"] for row in rows if row["result"] == "survived"} == {"return (x >= 0)", "return x > -1"}
    assert [row["result"] for row in rows].count("killed") == 3
    assert done.returncode == 1
    assert "| pytest_frt.gates.toy | 5 | 3 | 0 | 2 | 60.0% |" in done.stdout


SURVIVOR = mutate.Result("m", 1, "comparison", "x > 0", "x >= 0", mutate.SURVIVED, 0.1)


@pytest.mark.parametrize(
    ("entry", "bare"),
    [
        ({"line": "x > 0", "becomes": ["x >= 0"], "reason": "never 0"}, 0),
        ({"line": "x > 0", "becomes": ["x >= 0"], "reason": " "}, 1),
        ({"line": "x > 0", "becomes": ["x < 0"], "reason": "never 0"}, 1),
        ({"line": "y > 0", "becomes": ["x >= 0"], "reason": "never 0"}, 1),
    ],
    ids=["explained", "no_reason", "another_change", "another_line"],
)
def test_a_survivor_needs_a_reason_of_its_own(entry: dict[str, str | list[str]], bare: int) -> None:
    assert len(mutate.unexplained([SURVIVOR], {"m": [entry]})) == bare


def test_every_way_to_lose_a_check_is_tried_on_the_verifier() -> None:
    sources = sorted((ROOT / "pytest_frt" / "certs").glob("*.py"))
    tried = {one.operator for source in sources for one in mutants(source.read_text(encoding="utf-8"))}
    assert tried > CHECKS


def test_what_changes_nothing_is_no_mutant() -> None:
    assert "while True:" not in [one.after for one in mutants("while True:\n    step()\n")]
