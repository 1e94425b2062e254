"""A fault on the way costs one item and says what to do; nothing measured before is lost."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import files
from pytest_frt.errors import StorageFault

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage


def test_unreadable_checkpoint_fails_once_and_stops_its_host(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other, faults={f"{stage.record}|null_control": "CheckpointError"})
    result = stage.run()
    assert result.ret == 4
    assert stage.counts(result) == {"failed": 1, "NOT_RUN": 12}
    result.stdout.fnmatch_lines(["CheckpointError of null_control", "  next: mend it", "  rerun: pytest *"])
    assert f"NOT_RUN {stage.other} null_control not_run: stopped by CHECKPOINT" in stage.text(result)
    assert "During handling" not in result.stdout.str()


def test_fault_of_one_gate_stops_its_record_alone(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other, proven=[stage.other], faults={f"{stage.record}|parity": "EvidenceError"})
    report = stage.report()
    assert {one["id"]: one["outcome"] for one in report["records"]} == {
        stage.record: "NOT_RUN",
        stage.other: "CERTIFIED",
    }
    assert [fault["code"] for fault in report["faults"]] == ["EVIDENCE"]
    assert report["exit_code"] == 1


def test_refusal_weighs_more_than_a_fault(stage: Stage) -> None:
    from pytest_frt.contracts.verdict import Refusal

    stage.scenario(
        gates={stage.other: {"parity": Refusal("parity", "nan", "NaN")}, stage.record: {}},
        faults={f"{stage.record}|ledger": "CheckpointError"},
    )
    assert stage.run().ret == 1


def test_evidence_that_cannot_be_kept_costs_the_statement_and_no_number(stage: Stage) -> None:
    stage.scenario(stage.record, proven=[stage.record], unkept="the disk is full (0 bytes free)")
    report = stage.report()
    (record,) = report["records"]
    assert (record["outcome"], record["reason"], record["file"]) == ("NOT_RUN", "storage", None)
    assert record["gates"]["net_win"]["ratios"] == [[1.3]]
    assert report["exit_code"] == 1


def test_directory_without_room_is_found_before_anything_is_judged(stage: Stage) -> None:
    stage.pytester.path.joinpath("frt-certs").touch()
    stage.scenario(stage.record, stage.other, bugs=["null_control"])
    result = stage.run()
    assert result.ret == StorageFault.exit_code
    assert stage.counts(result) == {"failed": 1, "NOT_RUN": 12}
    result.stdout.fnmatch_lines(["*frt-certs*cannot be written: File exists"])


def _full_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = files._write_new

    def refuse(path: Path, data: bytes, mode: int) -> None:
        if path.is_relative_to(folder):
            raise OSError(28, "No space left on device", str(path))
        write(path, data, mode)

    monkeypatch.setattr(files, "_write_new", refuse)


def test_full_output_directory_keeps_statements_elsewhere(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(stage.pytester.mkdir("elsewhere")))
    _full_below(stage.pytester.path / "frt-certs", monkeypatch)
    stage.scenario(stage.record, proven=[stage.record])
    report = stage.report()
    assert report["exit_code"] == 1
    assert [one["outcome"] for one in report["records"]] == ["CERTIFIED"]
    assert all(Path(one["file"]).is_file() for one in (*report["records"], *report["unions"]))
    assert "No space left on device" in report["notes"][0]


def test_report_that_cannot_be_written_costs_no_statement(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    _full_below(stage.pytester.path / "reports", monkeypatch)
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run("--frt-json=reports/r.json")
    assert result.ret == StorageFault.exit_code
    assert stage.files() == ["statement", "statement"]
    assert "cannot be written: No space left on device" in stage.text(result)


def test_limit_of_the_system_is_one_clear_message_before_anything_is_judged(stage: Stage) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    stage.scenario(bugs=["null_control"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        result = stage.run("-p", "no:cacheprovider")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.ret == 1
    assert "cannot be written: File too large next: free space" in stage.text(result)


def test_interrupted_run_states_what_was_finished(stage: Stage) -> None:
    host = stage.other.replace("-toy-", "-box-")
    stage.scenario(stage.record, host, proven=[stage.record])
    stage.pytester.makepyfile(
        stop="def pytest_runtest_call(item):\n if 'test_net_win[linear' in item.name: raise KeyboardInterrupt"
    )
    result = stage.run("-p", "stop", apart=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert stage.files() == ["statement"]


def test_missing_key_is_met_before_anything_is_judged(stage: Stage) -> None:
    result = stage.run("--frt-sign-key=absent.pem")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: sign_key = */absent.pem from command line is no file"])
