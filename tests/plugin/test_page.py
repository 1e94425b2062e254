"""A run writes its page and its properties; what draws the page is looked for before anything is measured."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.report import drawing, html

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

SLOPE = Measured("seam.slope", 0.01, "<=", 0.002, 640, at="model.layers.0.mlp|real#0")


def test_page_is_made_of_the_json_report(stage: Stage) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    report = stage.report("--frt-html=page.html")
    page = stage.pytester.path.joinpath("page.html").read_bytes()
    assert page == html.render(report)
    assert b"1 certified of 1 asked for and 1 supported here" in page
    assert [one["subject"] for one in report["certificates"]] == [stage.record, stage.union]


def test_page_needs_no_json_report(stage: Stage) -> None:
    stage.run("--frt-html=pages/page.html")
    assert stage.pytester.path.joinpath("pages/page.html").stat().st_size > 10_000


def test_missing_extra_is_one_usage_error_before_anything_is_judged(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda _: None)
    result = stage.run("--frt-html=page.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: an HTML report needs jinja2*", "*pip install 'pytest-frt*report*'"])
    assert "judging" not in result.stdout.str()


def test_page_that_cannot_be_written_is_told_and_leaves_the_json_report(stage: Stage) -> None:
    stage.pytester.path.joinpath("there").touch()
    result = stage.run("--frt-html=there/page.html", "--frt-json=run.json")
    assert "there cannot be written: File exists" in " ".join(stage.text(result).split())
    assert result.ret == 1
    assert json.loads(stage.pytester.path.joinpath("run.json").read_text())["records"]


def test_junit_carries_words_numbers_and_reasons(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {"parity": Refusal("parity", "gain", "slope 0.01", "layers.0", (SLOPE,))}})
    stage.run("--junitxml=junit.xml")
    cases = ET.parse(stage.pytester.path / "junit.xml").iter("testcase")  # noqa: S314 (our own file)
    found = [{one.get("name"): one.get("value") for one in case.iter("property")} for case in cases]
    by_gate = {one["frt_gate"]: one for one in found}
    assert {one["frt_subject"] for one in found} == {stage.record, stage.union}
    parity = by_gate["parity"]
    assert (parity["frt_outcome"], parity["frt_reason"]) == ("REFUSED", "gain: slope 0.01")
    assert parity["frt.seam.slope"] == "0.01 <= 0.002"
    assert by_gate["seats"]["frt_seats"] == "2 stand, 0 refused"
    assert (by_gate["net_win"]["frt_outcome"], by_gate["net_win"]["frt_reason"]) == ("NOT_RUN", "parity")
