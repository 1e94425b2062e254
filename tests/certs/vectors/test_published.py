"""Every published vector gives exactly its answer, and the published file is what its script writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.certs.vectors import generate
from tests.certs.vectors.judge import answer
from tests.certs.vectors.model import ACCEPT, DATA, Vector, pack, read, unpack

VECTORS = read()
# These need a state file, an index, installed entries or a process that loads code: the named test holds the code.
ELSEWHERE = {
    "B1a": "tests/runtime/test_attach_refusals.py::test_claim_that_does_not_hold_here_is_refused",
    "B1b": "tests/runtime/test_attach_refusals.py::test_claim_that_does_not_hold_here_is_refused",
    "B1d": "tests/runtime/test_cell_scheme.py::test_scheme_that_the_installed_impl_does_not_run",
}
PENDING = ("L1", "L2", "L3", "L4", "L5")
HERE = [one for one in VECTORS if one.id not in {*ELSEWHERE, *PENDING}]
NUMBERED = {"A": 6, "E": 14, "S": 9, "K": 10, "T": 7, "G": 6, "F": 9, "R": 7, "L": 5}
BINDING = {"B1a", "B1b", "B1c", "B1d", "B1e", *(f"B{number}" for number in range(2, 11))}
NAMES = {"F11", *(f"F10.{number}" for number in range(11))}
REQUIRED = BINDING | NAMES | {f"{group}{number}" for group, last in NUMBERED.items() for number in range(1, last + 1)}


def test_the_file_is_what_the_script_writes() -> None:
    assert DATA.read_text(encoding="ascii") == generate.text(), "run: python -m tests.certs.vectors.generate"


def test_every_published_id_is_there_once() -> None:
    names = [vector.id for vector in VECTORS]
    assert len(set(names)) == len(names)
    assert set(names) >= REQUIRED


@pytest.mark.parametrize("vector", HERE, ids=lambda one: one.id)
def test_vector(vector: Vector, tmp_path: Path) -> None:
    found = answer(vector, tmp_path)
    assert found.code == vector.expect, found.said
    assert not (vector.hides and vector.hides in found.said)
    assert found.activates == (vector.expect == ACCEPT and vector.activates)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_judged_elsewhere_is_judged_there(name: str, repository: Path) -> None:
    path, _, function = ELSEWHERE[name].partition("::")
    text = (repository / path).read_text(encoding="utf-8")
    code = next(vector.expect for vector in VECTORS if vector.id == name)
    assert re.search(rf"def {function.partition('[')[0]}\(", text)
    assert f'"{code}"' in text


@pytest.mark.parametrize("data", [b"", b"x", b"ab" * 5_000, b"head" + b"\n" * 1_000 + b"tail" + b"xyz" * 300])
def test_packing_keeps_every_byte(data: bytes) -> None:
    assert unpack(pack(data)) == data
    assert len(str(pack(data))) < 60
