"""The linters bite: each rule that the project leans on rejects a snippet that breaks it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = '"""Say what this is for."""\n\nfrom __future__ import annotations\n\n'
COMPLEX = "def f(x: int) -> int:\n    " + "\n    ".join(f"if x == y{n}:\n        return z{n}" for n in range(11))
BROKEN = {
    "bare_root": ("TID251", "pytest_frt/a.py", "import hosts.llama\n"),
    "bare_root_from": ("TID251", "tests/a.py", "from impls import ffn\n"),
    "blind_except": ("BLE001", "pytest_frt/a.py", "try:\n    f()\nexcept Exception:\n    g()\n"),
    "no_annotation": ("ANN001", "impls/ffn/fast.py", "def f(x) -> int:\n    return x\n"),
    "no_docstring": ("D103", "pytest_frt/a.py", "def f() -> None:\n    g()\n"),
    "missing_f_prefix": ("RUF027", "pytest_frt/a.py", 'def f(x: int) -> str:\n    return "got {x}"\n'),
    "naked_threshold": ("PLR2004", "pytest_frt/gates/a.py", "def f(x: float) -> bool:\n    return x > 0.999\n"),
    "shipped_assert": ("S101", "pytest_frt/a.py", "assert f()\n"),
    "print_in_core": ("T201", "pytest_frt/a.py", "print(1)\n"),
    "unpickling": ("S301", "pytest_frt/a.py", "import pickle\n\npickle.loads(b'')\n"),
    "commented_code": ("ERA001", "pytest_frt/a.py", "# x = f(1)\n"),
    "complex": ("C901", "pytest_frt/a.py", COMPLEX),
}

LOOSE = {
    "no-untyped-def": "def a(x): return x",
    "type-arg": "def b(x: list) -> None: ...",
    "ignore-without-code": "c: int = ''  # type: ignore",
    "return-value": "def d(x: int | None) -> int: return x",
}


@pytest.mark.parametrize(("rule", "place", "code"), BROKEN.values(), ids=BROKEN)
def test_ruff_rejects(repository: Path, rule: str, place: str, code: str) -> None:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--output-format=json",
        "--stdin-filename",
        place,
        "-",
    ]
    done = subprocess.run(command, cwd=repository, input=HEAD + code, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert rule in {found["code"] for found in json.loads(done.stdout)}, done.stdout


def test_mypy_rejects(repository: Path, tmp_path: Path) -> None:
    loose = tmp_path / "loose.py"
    loose.write_text("\n".join(LOOSE.values()), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", f"--cache-dir={tmp_path}", "--config-file=pyproject.toml", str(loose)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert [rule for rule in LOOSE if f"[{rule}]" not in done.stdout] == [], done.stdout + done.stderr
