"""A failure ends with the command that runs exactly that record again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt.cell import RecordKey
from pytest_frt.contracts.verdict import Crashed, Inconclusive, Invalid, Measured, NotRun, Pass, Refusal, Verdict
from pytest_frt.report.lines import Rerun, failure, reason, union_failure
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.results import GateResult, UnionResult

KEY = RecordKey.parse("decoder_ffn-torch_packed-toy-w16a32-cpu@compiled.decode.real.hot")
SETTINGS = RunConfig(
    Selection(), ("eager",), None, None, "/o", "/c", 7, None, "self", quick=False, timing=True, kernel=(), json=None,
    threads=2, comparison=True,
)  # fmt: skip


def planned(key: RecordKey) -> Any:
    return SimpleNamespace(key=key, id=key.id)


def test_command_names_every_part_of_the_record_and_the_run() -> None:
    words = shlex.split(Rerun(replace(SETTINGS, checkpoint="/my weights", quick=True)).record(planned(KEY)))
    assert words[0] == "pytest"
    assert set(words[1:]) == {
        "--frt-host=toy", "--frt-structure=decoder_ffn", "--frt-impl=torch_packed", "--frt-scheme=w16a32",
        "--frt-device=cpu", "--frt-phase=decode", "--frt-form=compiled", "--frt-size=real", "--frt-seed=7",
        "--frt-threads=2", "--frt-checkpoint=/my weights", "--frt-quick",
    }  # fmt: skip


def test_command_keeps_the_folder_a_host_was_given_by() -> None:
    assert "--frt-host=/my/toy" in Rerun(SETTINGS, {"toy": Path("/my/toy")}).record(planned(KEY))


def test_command_of_a_union_selects_all_its_members() -> None:
    other = replace(KEY, cell=replace(KEY.cell, structure="qkv_pack"))
    union: Any = SimpleNamespace(records=(planned(KEY), planned(other)))
    command = Rerun(replace(SETTINGS, timing=False)).union(union)
    assert "--frt-structure=decoder_ffn,qkv_pack --frt-impl=torch_packed " in command
    assert command.endswith("--frt-no-timing")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Refusal("parity", "gain", "slope 0.01"), "REFUSED parity gain: slope 0.01"),
        (Invalid("net_win", "canary", "1.2"), "INVALID_RUN net_win canary: 1.2"),
        (Crashed("parity", "TIMEOUT", "600 s"), "TIMEOUT parity: 600 s"),
        (Inconclusive("net_win", "51 of 80"), "INCONCLUSIVE net_win: 51 of 80"),
        (NotRun("ledger", "parity"), "NOT_RUN ledger: parity"),
        (Pass("parity", band="warn"), "PASSED parity (warn)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_verdict_has_a_line(verdict: Verdict, said: str) -> None:
    assert reason(verdict) == said


def test_failure_tells_numbers_limits_places_and_the_first_seats() -> None:
    number = Measured("seam.slope", 0.0101, "<=", 0.002, 640, at="layers.0.mlp|real#0")
    refused = tuple(Refusal("parity", "gain", "slope", at=f"layers.{n}.mlp") for n in range(5))
    result = GateResult(KEY.id, "parity", Refusal("parity", "gain", "5 of 5", measured=(number,)), (), refused)
    lines = failure(result, "pytest --again").splitlines()
    assert lines[1] == "  seam.slope 0.0101, needs <= 0.002 at layers.0.mlp|real#0 (n=640)"
    assert lines[2:5] == [f"  seat layers.{n}.mlp: gain: slope" for n in range(3)]
    assert lines[5:] == ["  and 2 more seats", "  rerun: pytest --again"]


def test_failure_of_a_union_tells_who_was_left_out() -> None:
    result = UnionResult("toy-cpu@x", Refusal("union", "host_band", "top-1 0.8"), dropped={"a": "its places are taken"})
    assert union_failure(result, "pytest --again").splitlines() == [
        "REFUSED union host_band: top-1 0.8 (toy-cpu@x)",
        "  left out a: its places are taken",
        "  rerun: pytest --again",
    ]
