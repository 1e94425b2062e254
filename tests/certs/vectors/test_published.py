"""Every published vector gives exactly its answer, and the published file is what its script writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.certs import policy, statement, verify
from pytest_frt.certs.reading import parse_time
from tests.certs.vectors import generate, group_limits, make, world
from tests.certs.vectors.judge import answer
from tests.certs.vectors.model import ACCEPT, DATA, Vector, pack, read, unpack

VECTORS = read()
ATTACH = "tests/runtime/test_attach_refusals.py::test_claim_that_does_not_hold_here_is_refused"
HAZARD = "tests/runtime/test_hazards.py::test_hazard_is_refused_by_its_code_and_nothing_runs"
SABOTEUR = "tests/adversaries/test_correctness.py"
# These need installed entries, or a process that loads code: the named test holds the code.
ELSEWHERE = {
    "B1a": f"{ATTACH}[structure_version]",
    "B1b": f"{ATTACH}[impl_version]",
    "B1d": "tests/runtime/test_cell_scheme.py::test_scheme_that_the_installed_impl_does_not_run",
    "L1": f"{HAZARD}[L1 library loaded]",
    "L2": f"{HAZARD}[L2 id of the standard library]",
    "L3": f"{HAZARD}[L3 ops taken]",
    "L4": f"{HAZARD}[L4 local override]",
    "L5": f"{HAZARD}[L5 open cache]",
}
# A kernel that forges its verdict or takes the key is no document: one test for each of the roles that keep it apart.
ROLES = {
    "worker: no key": f"{SABOTEUR}::test_key_is_nowhere_but_in_its_file_while_a_candidate_runs",
    "worker: no secret": f"{SABOTEUR}::test_worker_gets_no_secret_of_the_environment",
    "judge: runs nothing": f"{SABOTEUR}::test_judge_executes_no_code_of_an_impl_kernel_host_or_structure",
    "judge: shows nothing": f"{SABOTEUR}::test_no_expected_output_lies_on_disk_while_a_candidate_runs",
    "signer: its own only": f"{SABOTEUR}::test_planted_statement_is_told_from_those_of_the_run",
    "signer: not in workers": "tests/plugin/test_sharding.py::test_two_workers_give_the_same_fold_and_hear_of_no_key",
}
HERE = [one for one in VECTORS if one.id not in ELSEWHERE]
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


@pytest.mark.parametrize("name", [*ELSEWHERE, *ROLES])
def test_what_is_judged_elsewhere_is_judged_there(name: str, repository: Path) -> None:
    path, _, node = {**ELSEWHERE, **ROLES}[name].partition("::")
    function, _, case = node.rstrip("]").partition("[")
    text = (repository / path).read_text(encoding="utf-8")
    assert f"def {function}(" in text
    for code in [vector.expect for vector in VECTORS if vector.id == name]:
        assert any(f'"{code}"' in line and case in line for line in text.splitlines()), code


def test_as_many_subjects_as_the_cap_are_accepted() -> None:
    """Not among the published vectors: its line would be a tenth of the file."""
    line = make.signed(lambda found: group_limits.fill_subjects(found, statement.MAX_SUBJECTS))
    (found,) = verify.verify_set([line], policy.parse(world.POLICY.encode()), parse_time(world.NOW))
    assert isinstance(found, verify.Accepted)


@pytest.mark.parametrize("data", [b"", b"x", b"ab" * 5_000, b"head" + b"\n" * 1_000 + b"tail" + b"xyz" * 300])
def test_packing_keeps_every_byte(data: bytes) -> None:
    assert unpack(pack(data)) == data
    assert len(str(pack(data))) < 60
