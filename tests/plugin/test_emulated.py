"""What a CPU shows in the place of an absent device is marked everywhere, and never stated, whoever says it passed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import pytest
from jsonschema import Draft202012Validator

from pytest_frt.certs import keys
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.report.away import SHOWN
from pytest_frt.rules.fold import CORRECTNESS_GATES, EMULATED, RECORD_GATES

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

THERE: Final = "decoder_ffn-torch_packed-toy-w16a32-thor@eager.decode.real.hot"
UNION: Final = "toy-thor@eager.decode.real.hot"
UNTIMED: Final = Refusal("net_win", EMULATED, "device thor is absent: nothing here tells its time")
LABEL: Final = "emulated on cpu in the place of thor; not shown: accumulation order and precision of its tensor cores, "


def stand_in(stage: Stage, **verdicts: Verdict) -> None:
    """Write the scenario of one record on an absent device whose numerics hold unless ``verdicts`` say otherwise."""
    stage.scenario(THERE, gates={THERE: {"net_win": UNTIMED, **verdicts}}, emulated=[THERE])


def lie(stage: Stage, **more: Any) -> None:
    """Write the scenario of a judge that hands over a proof of such a record, and of its union."""
    keys.write_private(stage.pytester.path / "k.pem", keys.generate())
    stage.scenario(THERE, proven=[THERE], **more)


@pytest.mark.parametrize(("args", "code"), [((), 6), (("--frt-no-timing",), 0)], ids=["timed", "without_timing"])
def test_what_holds_in_emulation_is_no_pass(stage: Stage, args: tuple[str, ...], code: int) -> None:
    stand_in(stage)
    result = stage.run(*args)
    assert result.ret == code
    assert stage.counts(result) == {"EMULATED": 5, "NOT_SUPPORTED": 1, "NOT_RUN": 1}
    assert stage.files() == []


def test_what_does_not_hold_in_emulation_fails_and_is_marked(stage: Stage) -> None:
    stand_in(stage, parity=Refusal("parity", "gain", "slope 0.01"))
    result = stage.run()
    assert result.ret == 1
    assert stage.counts(result)["failed"] == 1
    assert LABEL in stage.text(result)


def test_terminal_says_what_is_missing_and_what_the_device_would_judge(stage: Stage) -> None:
    stand_in(stage)
    text = stage.text(stage.run())
    for said in (
        f"frt: 1 of the records are {LABEL}its streams and graphs, its speed",
        f"NOT_SUPPORTED {THERE} parity top1.worst 0.95 (>= 0.85), ledger 48/48 {LABEL}",
        f"a run on thor would judge 1 records of 1 cells by {', '.join((*RECORD_GATES, 'union'))}:",
        "decoder_ffn torch_packed w16a32 on toy (real): eager decode hot; kernel acme/none; emulated here",
        "0 certified of 1 asked for and 0 supported here; 0 judged, 0 correct 1 more emulated on cpu, 1 correct there",
    ):
        assert said in text


def test_report_marks_the_record_and_lists_what_the_device_would_judge(stage: Stage) -> None:
    stand_in(stage)
    report = stage.report("--frt-gate=parity,net_win")
    schema = json.loads(resources.files("pytest_frt.schemas").joinpath("report.schema.json").read_text())
    assert [fault.message for fault in Draft202012Validator(schema).iter_errors(report)] == []
    assert report["records"][0]["emulated"]["label"].startswith(LABEL)
    assert report["records"][0]["emulated"]["not_shown"][2] == "its speed"
    assert (report["totals"]["correct"], report["totals"]["supported"], report["totals"]["emulated"]) == (0, 0, 1)
    (away,) = report["away"]
    assert (away["device"], away["gates"]) == ("thor", ["parity", "net_win"])
    assert away["records"][0] | {"kernel": "acme/none", "form": "eager", "phase": "decode"} == away["records"][0]


def test_run_without_timing_lists_the_gates_of_one_without_timing(stage: Stage) -> None:
    stand_in(stage)
    assert stage.report("--frt-no-timing")["away"][0]["gates"] == list(CORRECTNESS_GATES)


def test_cells_that_are_not_named_are_counted(stage: Stage) -> None:
    names = [THERE.replace("torch_packed", f"impl_{index}") for index in range(SHOWN + 2)]
    stage.scenario(*names, emulated=names)
    said = [stage.text(stage.run("--collect-only", *more)) for more in ((), ("-v",))]
    assert ["and 2 more cells (-v names them)" in one for one in said] == [True, False]
    assert [f"impl_{SHOWN + 1} w16a32 on toy (real)" in one for one in said] == [False, True]


def test_run_that_only_collects_counts_no_timing_for_it(stage: Stage) -> None:
    stand_in(stage)
    said = stage.text(stage.run("--collect-only", "-q"))
    assert "timing: 0 groups of records and 0 unions of several" in said


@pytest.mark.parametrize("before", [True, False], ids=["emulated_before", "device_before"])
@pytest.mark.parametrize("now", [True, False], ids=["emulated_now", "device_now"])
def test_what_a_device_showed_and_what_a_cpu_showed_are_not_compared(stage: Stage, *, before: bool, now: bool) -> None:
    for emulated, top1 in ((before, 0.95), (now, 0.86)):
        parity = Pass("parity", (Measured("top1.worst", top1, ">=", 0.85, 48),))
        stage.scenario(gates={THERE: {"parity": parity}}, emulated=[THERE] if emulated else [])
        result = stage.run("--frt-compare=last", "--frt-compare-fail=parity:1%")
    assert ("WORSE" in stage.text(result)) == (before == now)
    assert stage.counts(result).get("failed", 0) == (before == now)


def test_junit_marks_every_item_of_the_record(stage: Stage) -> None:
    stand_in(stage)
    stage.run("--junitxml=junit.xml")
    cases = ET.parse(stage.pytester.path / "junit.xml").getroot().iter("testcase")  # noqa: S314 (written by this test)
    said = [{p.attrib["name"]: p.attrib["value"] for p in case.iter("property")} for case in cases]
    of_record = [one for one in said if one["frt_subject"] == THERE]
    assert len(of_record) == len(RECORD_GATES)
    assert all(one["frt_emulated"].startswith(LABEL) for one in of_record)
    assert next(one for one in of_record if one["frt_gate"] == "net_win")["frt_outcome"] == "NOT_SUPPORTED"


def test_page_marks_the_record(stage: Stage) -> None:
    stand_in(stage)
    stage.run("--frt-html=page.html")
    page = stage.pytester.path.joinpath("page.html").read_text()
    assert page.count(LABEL) == len(("notice", "record"))
    assert "What a run on thor would judge" in page
    assert "Nothing was stated, so no file was written." in page


@pytest.mark.parametrize("key", [(), ("--frt-sign-key=k.pem",)], ids=["unsigned", "with_a_key"])
def test_proof_that_a_judge_hands_over_is_not_stated(stage: Stage, key: tuple[str, ...]) -> None:
    lie(stage, emulated=[THERE])
    result = stage.run(*key)
    assert result.ret == 6
    assert stage.files() == []
    assert f"{THERE}: nothing is stated, {LABEL}" in stage.text(result)
    assert f"{UNION}: nothing is stated, members that do not stand: {THERE}" in stage.text(result)


def test_the_same_proof_of_a_present_device_is_stated(stage: Stage) -> None:
    lie(stage)
    assert stage.run("--frt-sign-key=k.pem").ret == 0
    assert stage.files() == ["intoto", "intoto"]
