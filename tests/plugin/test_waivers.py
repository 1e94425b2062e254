"""A waived failure has its own word and never counts; a waiver that is over, reaches nothing or is not needed fails."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.contracts.verdict import Inconclusive, Refusal, Verdict
from pytest_frt.errors import FrtError
from pytest_frt.waivers import Waiver, find, load

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

NAN = Refusal("parity", "nan", "NaN at layer 3")
ENTRY: dict[str, Any] = {
    "owner": "numerics team",
    "reason": "NaN on one layer",
    "url": "https://example.org/faults/7",
    "gate": "parity",
    "cell": ["decoder_ffn-*"],
    "expires": "2999-01-31",
}


def toml(**entry: Any) -> str:
    lines = [f"{key} = {value if key == 'expires' else repr(value)}" for key, value in entry.items() if value]
    return "\n".join(["[[waiver]]", *lines, ""])


def waive(stage: Stage, **changed: Any) -> str:
    stage.pytester.path.joinpath("waivers.toml").write_text(toml(**(ENTRY | changed)))
    return "--frt-waivers=waivers.toml"


def test_waived_failure_fails_no_run_and_counts_as_nothing(stage: Stage) -> None:
    stage.scenario(gates={stage.other: {"parity": NAN}, stage.record: {}}, proven=[stage.record])
    report = stage.report(waive(stage, cell=["linear_proj-*"]))
    assert report["exit_code"] == 0
    assert {one["id"]: one["outcome"] for one in report["records"]} == {
        stage.other: "WAIVED",
        stage.record: "CERTIFIED",
    }
    waived = next(one for one in report["records"] if one["id"] == stage.other)
    assert (waived["correct"], waived["file"], waived["gate"]) == (False, None, "parity")
    assert "waived by numerics team until 2999-01-31: NaN on one layer" in waived["detail"]
    assert {key: report["totals"][key] for key in ("judged", "correct", "certified", "waived")} == {
        "judged": 2, "correct": 1, "certified": 1, "waived": 1,
    }  # fmt: skip
    assert [(one["state"], one["subjects"]) for one in report["waivers"]] == [("used", [stage.other])]


def test_waived_alone_is_exit_6_with_its_own_word_everywhere(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {"parity": NAN}})
    result = stage.run("-v", "--junitxml=junit.xml", waive(stage))
    assert result.ret == 6
    assert stage.counts(result) == {"passed": 2, "WAIVED": 1, "NOT_RUN": 4}
    result.stdout.fnmatch_lines([f"*::test_parity[[]{stage.record}[]] WAIVED *", "*1 waived"])
    cases = ET.parse(stage.pytester.path / "junit.xml").getroot().iter("testcase")  # noqa: S314 (written by this test)
    said = [{p.attrib["name"]: p.attrib["value"] for p in case.iter("property")} for case in cases]
    (parity,) = (one for one in said if one["frt_gate"] == "parity")
    assert (parity["frt_outcome"], parity["frt_waived"]) == ("WAIVED", "REFUSED")
    assert "https://example.org/faults/7" in parity["frt_waiver"]


@pytest.mark.parametrize(
    ("changed", "verdict", "state", "said"),
    [
        ({"expires": "2020-01-31"}, NAN, "expired", "it expired on 2020-01-31, "),
        ({"until": "0.1"}, NAN, "expired", "it holds until version 0.1, this is 0."),
        ({"cell": ["decodr_ffn-*"]}, NAN, "unmatched", "decodr_ffn-* on device *, scheme * match nothing"),
        ({"device": ["thro"]}, NAN, "unmatched", "on device thro, scheme * match nothing"),
        ({"scheme": ["w4a4"]}, NAN, "unmatched", "on device *, scheme w4a4 match nothing"),
        ({}, None, "needless", "gate parity of decoder_ffn-torch_packed-toy-w16a32-cpu@eager.decode.real.hot passes"),
        ({"gate": "net_win"}, Inconclusive("net_win", "51 of 80"), "needless", "INCONCLUSIVE, which fails no run"),
    ],
    ids=["expired", "until", "unmatched_cell", "unmatched_device", "unmatched_scheme", "passing", "finding"],
)
def test_waiver_that_does_not_stand_fails_the_run(
    stage: Stage, changed: dict[str, Any], verdict: Verdict | None, state: str, said: str
) -> None:
    gates: dict[str, Verdict] = {verdict.gate: verdict} if verdict else {}
    stage.scenario(gates={stage.record: gates})
    report = stage.report(waive(stage, **changed))
    assert report["exit_code"] == 1
    assert [one["state"] for one in report["waivers"]] == [state]
    (note,) = (note for note in report["notes"] if "waivers.toml: waiver 1" in note)
    assert said in note
    assert "remove it" in note


def test_waiver_over_several_records_fails_for_the_one_that_passes(stage: Stage) -> None:
    stage.scenario(gates={stage.other: {"parity": NAN}, stage.record: {}}, proven=[stage.record])
    report = stage.report(waive(stage, cell=["*-toy-*"]))
    assert report["exit_code"] == 1
    assert report["waivers"][0]["subjects"] == [stage.record]


def test_waiver_behind_an_earlier_failure_is_not_needless(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {"seats": Refusal("seats", "envelope", "hidden size 7"), "parity": NAN}})
    report = stage.report(waive(stage))
    assert (report["exit_code"], report["waivers"][0]["state"]) == (6, "unreached")


def test_waiver_for_records_this_run_does_not_judge_stands(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {}}, proven=[stage.record])
    report = stage.report(waive(stage, cell=["decoder_ffn-*-gemma3_270m-*"], device=["thor"]))
    assert (report["exit_code"], report["waivers"][0]["state"]) == (0, "elsewhere")


@pytest.mark.parametrize("device", [["cpu"], ["thor"]], ids=["here", "another_device"])
def test_union_is_waived_by_its_name(stage: Stage, device: list[str]) -> None:
    refused = {"type": "Refusal", "gate": "union", "reason": "host_band", "detail": "0.8", "at": "", "measured": []}
    stage.scenario(stage.record, proven=[stage.record], unions={stage.union: refused})
    given = waive(stage, gate="union", record=["toy-*@eager.*"], cell=None, device=device)
    result = stage.run(given)
    assert result.ret == (0 if device == ["cpu"] else 1)
    assert ("WAIVED" in stage.counts(result)) is (device == ["cpu"])


def test_yaml_says_the_same(tmp_path: Path) -> None:
    tmp_path.joinpath("w.toml").write_text(toml(**ENTRY))
    text = "waiver:\n- {owner: numerics team, reason: NaN on one layer, url: 'https://example.org/faults/7',"
    tmp_path.joinpath("w.yaml").write_text(f"{text} gate: parity, cell: ['decoder_ffn-*'], expires: 2999-01-31}}\n")
    (one,), (other,) = load(tmp_path / "w.toml"), load(tmp_path / "w.yaml")
    assert isinstance(one, Waiver)
    assert (one.expires, other.expires) == (date(2999, 1, 31),) * 2
    assert (one.owner, one.cell, one.device) == (other.owner, other.cell, ("*",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (toml(**{**ENTRY, "owner": None}), "'owner' is a required property"),
        (toml(**{**ENTRY, "url": "faults/7"}), "waiver.0.url"),
        (toml(**{**ENTRY, "cell": None}), "waiver.0"),
        (toml(**{**ENTRY, "gate": "partiy"}), "waiver 1: unknown gate 'partiy'\n  next: did you mean 'parity'?"),
        (toml(**{**ENTRY, "expires": "'2027-02-31'"}), "expires '2027-02-31' is no day"),
        (toml(**{**ENTRY, "gate": "union"}), "gate union judges no cell"),
        (toml(**ENTRY, sceme=["x"]), "'sceme' was unexpected"),
        ("[[waiver]\n", "are no TOML"),
    ],
    ids=["no_owner", "no_url", "no_reach", "gate_typo", "no_such_day", "union_of_cells", "unknown_key", "no_toml"],
)
def test_malformed_file_is_one_message(tmp_path: Path, text: str, said: str) -> None:
    tmp_path.joinpath("w.toml").write_text(text)
    with pytest.raises(FrtError) as caught:
        load(tmp_path / "w.toml")
    assert said in caught.value.diagnostics()
    assert caught.value.exit_code == 4


def test_gate_of_another_name_is_not_covered(tmp_path: Path) -> None:
    tmp_path.joinpath("w.toml").write_text(toml(**ENTRY))
    name = "decoder_ffn-torch_packed-toy-w16a32-cpu@eager.decode.real.hot"
    waivers = load(tmp_path / "w.toml")
    assert find(waivers, name, "parity") is waivers[0]
    assert find(waivers, name, "ledger") is None


def test_waiver_for_a_record_of_another_fraction_stands(stage: Stage) -> None:
    stage.scenario(gates={stage.record: {"parity": NAN}})
    states = {stage.report(waive(stage), f"--frt-fraction={index},2")["waivers"][0]["state"] for index in (1, 2)}
    assert states == {"used", "unreached"}


def test_dry_run_says_what_would_be_judged_and_waived_and_judges_nothing(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other, bugs=["null_control"])
    result = stage.run("--frt-dry-run", waive(stage))
    assert result.ret == 0
    said = stage.text(result)
    assert "would judge 2 records and 1 unions on toy real (2 records)" in said
    assert "gates in order: null_control, seats, parity, ledger, contract, net_win, union" in said
    assert f"gate parity of {stage.record} may fail until 2999-01-31: numerics team, https://example.org" in said
    assert f"gate parity of {stage.other}" not in said
    assert "1 groups of records and 1 unions of several, 8 fresh processes each, 16 at most" in said
    assert not stage.out.exists()
