"""No planted impl passes: each is refused at the right gate, in the right word, and spoils no other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file as load_tensors

from pytest_frt.certs import store
from pytest_frt.contracts.verdict import NotRun, Outcome, Pass
from pytest_frt.lab.store import CAP_BYTES
from pytest_frt.rules.fold import CORRECTNESS_GATES
from pytest_frt.spec.modules import load_file

catalogue: Any = load_file(Path(__file__).with_name("catalogue.py"))


def check(trial: Any, name: str, one: Any) -> None:
    found = trial.outcome(name)
    word = Outcome[one.reason] if one.reason in Outcome.__members__ else Outcome.REFUSED
    assert (found.outcome, found.gate) == (word, one.gate), found
    assert found.reason in {one.reason.lower(), *filter(None, [one.other])}, found
    assert one.says in found.detail


@pytest.mark.parametrize("name", catalogue.REFUSED)
def test_is_refused_in_the_right_word(trial: Any, name: str) -> None:
    try:
        check(trial, name, catalogue.REFUSED[name])
    finally:
        trial.tidy()


@pytest.mark.parametrize("name", catalogue.HANGS)
def test_hang_is_a_time_out(trial: Any, hurried: Callable[[float], None], name: str) -> None:
    hurried(4.0 if catalogue.HANGS[name].gate == "parity" else 1.0)
    check(trial, name, catalogue.HANGS[name])


@pytest.mark.parametrize("name", catalogue.SOUND)
def test_sound_impl_beside_them_passes(trial: Any, name: str) -> None:
    results = trial.gates(name)
    assert {gate: type(results[gate].verdict) for gate in CORRECTNESS_GATES} == dict.fromkeys(CORRECTNESS_GATES, Pass)
    assert isinstance(results["net_win"].verdict, NotRun)
    assert not any(result.refused for result in results.values())
    assert len(results["contract"].survivors) == {"decoder_ffn": 2, "linear_proj": 1}[catalogue.SOUND[name].structure]


def test_no_expected_output_lies_on_disk_while_a_candidate_runs(trial: Any) -> None:
    trial.gates("looks_for_answers")
    found = [line.split() for line in trial.said("looks_for_answers").splitlines() if line.startswith("FOUND")]
    assert "seam_inputs.safetensors" in {line[1] for line in found}
    assert {line[1] for line in found} <= {"seam_inputs.safetensors", "scales.safetensors"}


def test_key_is_nowhere_but_in_its_file_while_a_candidate_runs(trial: Any) -> None:
    trial.gates("looks_for_the_key")
    said = trial.said("looks_for_the_key").splitlines()
    assert "READ 24" in said  # a program of the same user can open the file: the threat model says so
    assert len([line for line in said if line.startswith(("environ", "cmdline", "memory"))]) > 10
    assert [line for line in said if line.endswith("FOUND")] == []


def test_worker_gets_no_secret_of_the_environment(trial: Any) -> None:
    trial.gates("looks_for_secrets")
    assert "SECRETS []" in trial.said("looks_for_secrets")


def test_planted_statement_is_told_from_those_of_the_run(trial: Any) -> None:
    trial.gates("plants_a_statement")
    names = {file.name for file in store.changed_since(trial.root / "out", trial.began)}
    assert names == {"planted.statement.json", "planted.frt.intoto.jsonl"}
    assert store.changed_since(trial.root / "out", time.time() + 60.0) == ()


def test_what_a_candidate_changed_is_put_back(trial: Any) -> None:
    trial.gates("clears_the_inputs")
    witnessed = trial.bench.witness(trial.records["sound"].host)
    assert witnessed.originals.custody.changed() == ()
    assert any(tensor.any() for tensor in load_tensors(witnessed.seam_inputs).values())


def test_judge_executes_no_code_of_an_impl_kernel_host_or_structure(trial: Any, repository: Path) -> None:
    trial.gates("sound_static")
    trial.gates("replaces_silu")
    kernel = trial.records["sound"].unit.kernel_path
    entries = (str(trial.folder), kernel, *(str(repository / name) for name in ("impls", "hosts", "catalog", "csrc")))
    assert [file for file in trial.executed if file.startswith(entries)] == []


def test_execution_of_an_impl_would_be_heard(trial: Any) -> None:
    file = trial.folder / "linear_proj" / "zeros.py"
    with trial.listening():
        load_file(file)
    assert str(file) in trial.executed
    trial.executed.clear()


def test_log_of_a_noisy_impl_stays_in_its_folder(trial: Any, capfd: pytest.CaptureFixture[str]) -> None:
    trial.gates("noisy")
    assert trial.said("noisy").count('{"token": 1}') == 10_000
    assert f"LIMIT {CAP_BYTES} {CAP_BYTES}" in trial.said("noisy")
    assert "token" not in capfd.readouterr().out
