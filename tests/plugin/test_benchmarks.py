"""Timed samples are data of pytest-benchmark: its files, its session and its own command read them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.report import benchmarks

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage


def timed(stage: Stage, speed: float, *args: object) -> pytest.RunResult:
    stage.scenario(stage.record, timed={stage.record: speed})
    return stage.run(*args)


def stored(stage: Stage) -> list[Path]:
    return sorted(stage.pytester.path.joinpath("frt-certs", "benchmarks").glob("*/*.json"))


def test_its_own_command_compares_two_files_of_ours(stage: Stage) -> None:
    timed(stage, 1.3)
    timed(stage, 1.5)
    files = stored(stage)
    assert [file.name for file in files] == ["0001_frt.json", "0002_frt.json"]
    words = [sys.executable, "-m", "pytest_benchmark", "compare", "--columns=median,rounds,iterations", *files]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True, cwd=stage.pytester.path)
    told = [line for line in done.stdout.splitlines() if line.startswith("net_win[")]
    assert len(told) == 4
    assert {line.partition("]")[2].split()[0] for line in told} == {"base", "candidate"}
    assert all(line.rstrip().endswith("12           4") for line in told), done.stdout


def test_samples_are_seconds_of_one_execution(stage: Stage) -> None:
    timed(stage, 2.0)
    (file,) = stored(stage)
    rows = {row["params"]["arm"]: row for row in json.loads(file.read_text())["benchmarks"]}
    base, candidate = rows["base"]["stats"], rows["candidate"]["stats"]
    assert (base["min"], base["rounds"], base["iterations"]) == (0.02 / 4, 12, 4)
    assert candidate["median"] == pytest.approx(base["median"] / 2)
    assert len(base["data"]) == 12
    assert {row["group"] for row in rows.values()} == {stage.record}


def test_its_session_saves_and_compares(stage: Stage) -> None:
    plain: tuple[Any, ...] = ("-p", "pytest_benchmark.plugin", "--benchmark-columns=median")
    timed(stage, 1.3, *plain, "--benchmark-json=first.json", "--benchmark-storage=file://./kept", "--benchmark-save=a")
    saved = json.loads(stage.pytester.path.joinpath("first.json").read_text())["benchmarks"]
    assert [row["params"]["arm"] for row in saved] == ["base", "candidate"]
    assert len(list(stage.pytester.path.glob("kept/*/0001_a.json"))) == 1
    failing = "--benchmark-compare-fail=median:10%"
    result = timed(stage, 1.0, *plain, "--benchmark-storage=file://./kept", "--benchmark-compare=0001", failing)
    said = stage.text(result) + " ".join(result.stderr.str().split())
    assert "Performance has regressed" in said
    assert f"net_win[{stage.record}] candidate" in said


def test_without_its_options_its_table_stays_away(stage: Stage) -> None:
    result = timed(stage, 1.3, "-p", "pytest_benchmark.plugin")
    assert "candidate" not in result.stdout.str()


def test_pairs_that_changed_since_they_were_kept_are_a_fault(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = benchmarks.taken

    def spoilt(out: Path, evidence: Any) -> Any:
        (out / evidence.name).write_text((out / evidence.name).read_text() + "\n")
        return kept(out, evidence)

    monkeypatch.setattr(benchmarks, "taken", spoilt)
    result = timed(stage, 1.3)
    assert result.ret == 1
    assert stored(stage) == []
    assert ", kept was " in stage.text(result)


def test_nothing_timed_writes_nothing(stage: Stage) -> None:
    stage.scenario(stage.record)
    stage.run()
    assert stored(stage) == []
