"""A run that goes on shows what it keeps and from where, judges the rest, and says what differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import keys
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.run.present import Present

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

WAIVER = """
waiver:
- {owner: a, reason: b, url: "https://c.d", gate: parity, cell: ["linear_proj-*"], expires: 2999-01-31}
"""


@pytest.fixture
def same(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the present machine be the certified one, but for the sentences that a test adds."""
    differences: list[str] = []

    def said(*_: Any) -> Iterator[str]:
        yield from differences

    monkeypatch.setattr(Present, "differences", said)
    return differences


def certify(stage: Stage, *args: object) -> None:
    stage.scenario(stage.record, proven=[stage.record], timed={stage.record: 1.3})
    assert stage.run(*args).ret == 0


def test_kept_record_and_plan_are_told_with_their_files_and_not_judged(stage: Stage, same: list[str]) -> None:
    certify(stage, "--frt-issuer=acme")
    report = stage.report("--frt-resume", "--frt-issuer=acme")
    assert (same, report["exit_code"], report["records"], report["unions"]) == ([], 0, [], [])
    (kept,), (plan,) = report["resumed"]["kept"], report["resumed"]["plans"]
    assert (kept["id"], plan["id"]) == (stage.record, stage.union)
    assert kept["file"].endswith(f"{kept['name'][:12]}.statement.json")
    result = stage.run("--frt-resume", "--frt-issuer=acme")
    assert result.ret == 0
    said = stage.text(result)
    assert f"CERTIFIED (kept) {stage.record} from " in said
    assert f"PLAN (kept) {stage.union} from " in said
    assert "0 judged, 0 correct, 1 kept from an earlier run" in said


def test_rest_is_judged_beside_what_is_kept(stage: Stage, same: list[str]) -> None:
    certify(stage)
    stage.scenario(stage.record, stage.other)
    report = stage.report("--frt-resume")
    assert same == []
    assert [one["id"] for one in report["records"]] == [stage.other]
    assert report["resumed"]["again"] == {stage.other: f"no certificate of it lies below {stage.out}"}
    assert [one["id"] for one in report["unions"]] == [stage.union]
    assert report["exit_code"] == 0


def test_plan_names_the_certificate_that_was_kept(stage: Stage, same: list[str]) -> None:
    certify(stage)
    for path in stage.out.rglob("plan-*"):
        path.unlink()
    report = stage.report("--frt-resume")
    assert same == []
    (kept,), (union,) = report["resumed"]["kept"], report["unions"]
    assert union["outcome"] == "CERTIFIED"
    assert kept["name"] in Path(union["file"]).read_text()


def test_what_differs_is_said_and_judged(stage: Stage, same: list[str]) -> None:
    certify(stage)
    same.append("torch is certified as 2.12.0, installed is 2.13.0")
    result = stage.run("--frt-resume")
    assert result.ret == 0
    assert f"judged again: {stage.record}: torch is certified as 2.12.0, installed is 2.13.0 (" in stage.text(result)
    assert stage.counts(result)["passed"] == 7


def test_without_the_option_everything_is_judged(stage: Stage, same: list[str]) -> None:
    certify(stage)
    report = stage.report()
    assert (same, report["resumed"], len(report["records"])) == ([], None, 1)


def test_signing_run_judges_what_is_unsigned(stage: Stage, same: list[str]) -> None:
    certify(stage)
    key = keys.generate()
    keys.write_private(stage.pytester.path / "k.pem", key)
    stage.pytester.path.joinpath("k.pub").write_text(key.public.text)
    report = stage.report("--frt-resume", "--frt-sign-key=k.pem")
    assert same == []
    assert "this run's key did not sign it" in report["resumed"]["again"][stage.record]
    again = stage.report("--frt-resume", "--frt-sign-key=k.pem")
    assert [one["id"] for one in again["resumed"]["kept"]] == [stage.record]


def test_workers_of_xdist_go_on_and_waive_as_their_controller_does(stage: Stage) -> None:
    certify(stage)
    nan = Refusal("parity", "nan", "NaN")
    stage.scenario(gates={stage.record: {}, stage.other: {"parity": nan}}, proven=[stage.record])
    stage.pytester.path.joinpath("w.yaml").write_text(WAIVER)
    result = stage.run("-n1", "--frt-resume", "--frt-waivers=w.yaml", apart=True)
    assert result.ret == 0
    assert f"judged again: {stage.record}: judge is certified as" in stage.text(result)
    assert stage.counts(result)["WAIVED"] == 1
