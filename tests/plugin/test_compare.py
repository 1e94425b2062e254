"""What got worse since an earlier run is told on the record's line and at the end, and fails where that was asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.contracts.verdict import Inconclusive, Measured, Pass, Refusal, Verdict

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage


def timed(pooled: float, spread: float = 0.05) -> Pass:
    numbers = zip(
        ("pooled_median", "interval_low", "interval_high"), (pooled, pooled - spread, pooled + spread), strict=True
    )
    return Pass("net_win", tuple(Measured(name, value, ">", 1.02, 24) for name, value in numbers))


BEFORE: dict[str, Verdict] = {"net_win": timed(1.31)}
WORSE: dict[str, tuple[dict[str, Verdict], str, str, str]] = {
    "slower": ({"net_win": timed(1.28)}, "ratio:2%", "net_win", "ratio 1.310x before, 1.280x now (-2.3 %"),
    "refused_now": ({"net_win": Inconclusive("net_win", "51 of 80")}, "outcome", "net_win", "gate net_win held before"),
}


def again(stage: Stage, changed: dict[str, Verdict], *args: object) -> tuple[pytest.RunResult, dict[str, Any]]:
    """Judge one record, and once more with other verdicts beside the first report; return the second run."""
    stage.scenario(gates={stage.record: BEFORE}, proven=[stage.record])
    stage.report()
    stage.pytester.path.joinpath("report.json").rename(stage.pytester.path / "before.json")
    stage.scenario(gates={stage.record: BEFORE | changed}, proven=[stage.record])
    result = stage.run("--frt-json=report.json", *args)
    return result, json.loads(stage.pytester.path.joinpath("report.json").read_text())


@pytest.mark.parametrize(("changed", "rule", "gate", "said"), WORSE.values(), ids=WORSE)
def test_worse_fails_its_own_item_where_that_was_asked(
    stage: Stage, changed: dict[str, Verdict], rule: str, gate: str, said: str
) -> None:
    result, report = again(stage, changed, "--frt-compare", f"--frt-compare-fail={rule}")
    assert (result.ret, report["exit_code"]) == (1, 1)
    result.stdout.fnmatch_lines([f"WORSE [[]{rule}[]] {said.replace('[', '[[]')}*", "  rerun: pytest *"])
    assert f"test_cells.py::test_{gate}[{stage.record}]" in stage.text(result)
    assert {one["rule"] for one in report["compared"]["worse"]} == {rule}
    assert any("worse than in" in note for note in report["notes"])


def test_worse_is_shown_and_fails_nothing_unless_asked(stage: Stage) -> None:
    result, report = again(stage, {"net_win": timed(1.19)}, "--frt-compare=before.json")
    assert (result.ret, report["exit_code"]) == (0, 0)
    said = stage.text(result)
    assert f"CERTIFIED {stage.record} parity top1.worst 0.95 (>= 0.85), ledger 48/48, net win 1.190x" in said
    assert "WORSE: ratio 1.310x before, 1.190x now" in said
    assert "before.json: 2 in both, 1 worse" in said


def test_failure_is_told_once_and_what_it_stops_is_not_worse(stage: Stage) -> None:
    nan = Refusal("parity", "nan", "NaN")
    result, report = again(stage, {"parity": nan}, "--frt-compare=before.json", "--frt-compare-fail=outcome")
    assert stage.counts(result)["failed"] == 1
    assert next(one["text"] for one in report["compared"]["worse"]) == "CERTIFIED before, REFUSED now"


def test_first_report_has_nothing_to_compare_with(stage: Stage) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    report = stage.report("--frt-compare=last", "--frt-compare-fail=ratio:2%")
    assert (report["exit_code"], report["compared"]) == (0, None)
    assert any("nothing to compare with yet" in note for note in report["notes"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--frt-compare=nowhere.json"], "is no file"),
        (["--frt-compare-fail=ratio:2%"], "has no report to compare with"),
    ],
    ids=["no_file", "nothing_to_compare"],
)
def test_unusable_comparison_is_one_message(stage: Stage, args: list[str], said: str) -> None:
    result = stage.run(*args)
    assert result.ret == 4
    assert said in " ".join(result.stderr.str().split())
