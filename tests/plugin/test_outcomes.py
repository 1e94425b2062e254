"""Every outcome has its own word, category and exit code, in the terminal, in JUnit and in JSON."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from pytest_frt.contracts.verdict import Crashed, Inconclusive, Invalid, Measured, NotRun, Pass, Refusal, Verdict

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

SLOW = Measured("interval_low", 0.97, ">", 1.02, 24)
GAIN = Measured("seam.slope", 0.01, "<=", 0.002, 640, at="model.layers.0.mlp|real#0")
FAILURES: dict[str, tuple[str, str, Verdict]] = {
    "checkpoint_differs": (
        "REFUSED",
        "null_control",
        Refusal("null_control", "checkpoint_differs", "1 tensor differs"),
    ),
    "one_percent_gain": ("REFUSED", "parity", Refusal("parity", "gain", "slope 0.01", "layers.0", (GAIN,))),
    "never_called": ("REFUSED", "ledger", Refusal("ledger", "never_called", "0 of 48 calls")),
    "detach_leaves_a_hook": ("REFUSED", "contract", Refusal("contract", "failed", "detach left a hook")),
    "os_exit": ("CRASH", "parity", Crashed("parity", "CRASH", "the worker ended with status 0 and no evidence")),
    "endless_loop": ("TIMEOUT", "ledger", Crashed("ledger", "TIMEOUT", "no answer in 600 s")),
    "sleeps_in_base_arm": ("INVALID_RUN", "net_win", Invalid("net_win", "base", "base medians differ from witnesses")),
}
FINDINGS: dict[str, tuple[str, str, Verdict]] = {
    "not_faster": ("CORRECT_NOT_FASTER", "net_win", Refusal("net_win", "no_win", "pooled 0.97", measured=(SLOW,))),
    "undecided": ("INCONCLUSIVE", "net_win", Inconclusive("net_win", "51 of 80 units above 1.02")),
    "quick_form": ("INCONCLUSIVE", "net_win", Pass("net_win", band="provisional")),
    "no_seat_taken": ("REFUSED", "seats", Refusal("seats", "envelope", "hidden size 7 is no multiple of 8")),
    "timing_off": ("NOT_RUN", "net_win", NotRun("net_win", "timing was switched off")),
}


@pytest.mark.parametrize(("word", "gate", "verdict"), FAILURES.values(), ids=FAILURES)
def test_failure_fails_one_item_and_leaves_later_gates_not_run(
    stage: Stage, word: str, gate: str, verdict: Verdict
) -> None:
    stage.scenario(gates={stage.record: {gate: verdict}})
    result = stage.run("-v")
    assert result.ret == 1
    assert stage.counts(result)["failed"] == 1
    result.stdout.fnmatch_lines(
        [f"*::test_{gate}[[]{stage.record}[]] {word} *", f"{word} {gate}*", "  rerun: pytest *"]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(("word", "gate", "verdict"), FINDINGS.values(), ids=FINDINGS)
def test_finding_is_neither_pass_nor_failure(stage: Stage, word: str, gate: str, verdict: Verdict) -> None:
    stage.scenario(gates={stage.record: {gate: verdict}})
    result = stage.run("-v")
    assert result.ret == 6
    found = stage.counts(result)
    assert not {"failed", "skipped"} & found.keys()
    assert found[word] >= 1
    result.stdout.fnmatch_lines([f"*::test_{gate}[[]{stage.record}[]] {word} *"])


def test_certified_is_exit_0_and_six_passes(stage: Stage) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run()
    assert result.ret == 0
    assert stage.counts(result) == {"passed": 7}
    for said in (f"CERTIFIED {stage.record}", f"PLAN {stage.union}: 1 records, 2 seats", "1 certified of 1 asked for"):
        assert said in stage.text(result)


def test_refusal_weighs_more_than_a_certified_record(stage: Stage) -> None:
    stage.scenario(
        gates={stage.other: {"parity": Refusal("parity", "nan", "NaN")}, stage.record: {}}, proven=[stage.record]
    )
    assert stage.run().ret == 1
    assert "statement" in stage.files()


def test_correct_without_timing_is_exit_0_and_certifies_nothing(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {"net_win": NotRun("net_win", "timing was switched off")}})
    result = stage.run("--frt-no-timing")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["0 certified of 1 *1 correct", "timing was switched off: nothing is certified"])


def test_union_refused_by_parity_fails(stage: Stage) -> None:
    verdict = {
        "type": "Refusal",
        "gate": "union",
        "reason": "host_band",
        "detail": "top-1 0.8",
        "at": "",
        "measured": [],
    }
    stage.scenario(stage.record, proven=[stage.record], unions={stage.union: verdict})
    result = stage.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"REFUSED union host_band: top-1 0.8 ({stage.union})", "NO PLAN toy-cpu@*"])


def test_absent_device_is_reported_never_counted(stage: Stage) -> None:
    cells = {f"ffn_{n}-fast-toy-w16a32-thor": "device thor is a cuda device, this is cpu" for n in range(10)}
    stage.pytester.path.joinpath("scenario.json").write_text(
        f'{{"records": {{}}, "absent": {cells}}}'.replace("'", '"')
    )
    result = stage.run()
    assert result.ret == 6
    assert "skipped" not in stage.counts(result)
    result.stdout.fnmatch_lines(
        ["NOT_SUPPORTED ffn_0-fast-toy-w16a32-thor", "NOT_SUPPORTED and 2 more *", "*device thor is a cuda device*"]
    )
    result.stdout.fnmatch_lines(["0 certified of 10 asked for and 0 supported here; 0 judged, 0 correct"])


def test_junit_holds_the_words(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {"net_win": Refusal("net_win", "no_win", "pooled 0.97")}})
    stage.run("--junitxml=junit.xml")
    cases = ET.parse(stage.pytester.path / "junit.xml").getroot().iter("testcase")  # noqa: S314 (written by this test)
    said = [{p.attrib["name"]: p.attrib["value"] for p in case.iter("property")} for case in cases]
    words = {one["frt_gate"]: one["frt_outcome"] for one in said}
    assert words["parity"] == "PASSED"
    assert words["net_win"] == "CORRECT_NOT_FASTER"


def test_bug_of_the_judge_is_a_failure_with_its_traceback(stage: Stage) -> None:
    stage.scenario(bugs=["parity"])
    result = stage.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*RuntimeError: a bug of the judge"])
