"""Only what was judged in full, once, in items that count, is ever stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import keys, statement
from pytest_frt.contracts.record import Record
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.plugin.conftest import Stage

SKIP_AFTER = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item):
    if "test_{gate}[" in item.name: {act}
"""
AGAIN = """
def pytest_collection_modifyitems(items): items += [i for i in items if "test_ledger[" in i.name]
"""
XFAIL = """
import pytest
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if "test_contract[" in item.name: item.add_marker(pytest.mark.xfail)
"""
TEARDOWN = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    if "test_parity[" in item.name: raise OSError("teardown broke")
"""
SPOILED = {
    "skipped_after_the_gate": SKIP_AFTER.format(gate="seats", act="pytest.skip('later')"),
    "expected_to_fail": XFAIL,
    "judged_twice": AGAIN,
    "teardown_failed": TEARDOWN,
}


PLANT = """
from pathlib import Path
def pytest_runtest_call(item):
    folder = Path("frt-certs/toy/cpu")
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("planted.statement.json").write_text("{}")
"""


def test_statement_that_appears_during_the_run_is_told(stage: Stage) -> None:
    stage.pytester.makeconftest(PLANT)
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run("-p", "conftest")
    assert result.ret == CertificateRefused.exit_code
    assert "planted.statement.json appeared during the run" in stage.text(result)


def test_statement_of_an_earlier_run_is_none_of_this_one(stage: Stage) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    assert [stage.run().ret for _ in range(2)] == [0, 0]


def test_proven_record_and_plan_are_stated_unsigned(stage: Stage) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run()
    assert stage.files() == ["statement", "statement"]
    result.stdout.fnmatch_lines(["unsigned statements*frt sign*", "unsigned */frt-certs/toy/cpu/*.statement.json"])
    assert result.ret == 0


def test_key_signs_and_its_id_is_shown_before_and_after(stage: Stage) -> None:
    key = keys.generate()
    keys.write_private(stage.pytester.path / "k.pem", key)
    stage.pytester.path.joinpath("k.pub").write_text(key.public.text)
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run("--frt-sign-key=k.pem")
    assert stage.files() == ["intoto", "intoto"]
    result.stdout.fnmatch_lines([f"frt: *key {key.public.keyid}", f"signed by {key.public.keyid}"])


def test_key_that_does_not_open_leaves_statements_unsigned(stage: Stage) -> None:
    keys.write_private(stage.pytester.path / "k.pem", keys.generate(), b"a phrase nobody gave")
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run("--frt-sign-key=k.pem")
    assert result.ret == 1
    assert stage.files() == ["statement", "statement"]
    assert "[KEY_PASSPHRASE]" in stage.text(result)


def test_record_that_cannot_be_stated_spoils_no_other(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    build = statement.build_cell

    def refuse(record: Record, **terms: Any) -> bytes:
        if record.key.id == stage.other:
            raise CertificateRefused("SCHEMA", "seats is no array")
        return build(record, **terms)

    monkeypatch.setattr(statement, "build_cell", refuse)
    stage.scenario(stage.record, stage.other, proven=[stage.record, stage.other])
    result = stage.run()
    assert result.ret == 1
    assert stage.files() == ["statement"]
    assert f"{stage.other}: nothing is stated, [SCHEMA] seats is no array" in stage.text(result)
    assert f"{stage.union}: nothing is stated, members without a statement: {stage.other}" in stage.text(result)


@pytest.mark.parametrize("plugin", SPOILED.values(), ids=SPOILED)
def test_item_that_does_not_count_leaves_nothing_stated(stage: Stage, plugin: str) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    stage.pytester.makepyfile(spoil=plugin)
    result = stage.run("-p", "spoil")
    assert stage.files() == []
    assert result.ret in {1, 6}
    for name in (stage.record, stage.union):
        assert f"{name}: nothing is stated, " in stage.text(result)


@pytest.mark.parametrize(
    "words",
    [["-k", "not contract"], ["--frt-gate=net_win"], ["--deselect", "test_cells.py::test_null_control"]],
    ids=["keyword", "gate_filter", "deselected"],
)
def test_gate_left_out_leaves_nothing_stated(stage: Stage, words: list[str]) -> None:
    stage.scenario(stage.record, proven=[stage.record])
    result = stage.run(*words)
    assert stage.files() == []
    assert result.ret == 6
    assert "was not judged" in stage.text(result)


def test_gate_filter_keeps_a_refusal_a_failure(stage: Stage) -> None:
    from pytest_frt.contracts.verdict import Refusal

    stage.scenario(gates={stage.record: {"parity": Refusal("parity", "nan", "NaN")}})
    result = stage.run("--frt-gate=par*")
    assert result.ret == 1
    found = stage.counts(result)
    assert (found["failed"], found["deselected"]) == (1, 6)


def test_plan_of_a_member_that_does_not_stand_is_withheld(stage: Stage) -> None:
    stage.scenario(stage.record, stage.other, proven=[stage.record, stage.other])
    stage.pytester.makepyfile(spoil=AGAIN.replace("test_ledger[", "test_ledger[linear"))
    result = stage.run("-p", "spoil")
    assert stage.files() == ["statement"]
    assert f"{stage.union}: nothing is stated, members that do not stand: {stage.other}" in stage.text(result)
