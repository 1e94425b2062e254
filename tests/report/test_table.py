"""Rows are ordered worst first and stay readable at any width."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_frt.contracts.verdict import Crashed, Measured, Outcome, Pass, Refusal
from pytest_frt.report.table import HEADS, SEVERITY, render, rows

if TYPE_CHECKING:
    from tests.report.conftest import Builder

TAIL = "toy-w16a32-cpu@eager.decode.real.hot"


def test_severest_outcome_first_then_worst_margin(build: Builder, slow: Callable[[float], Refusal]) -> None:
    near = Pass("parity", (Measured("host.top1.worst", 0.86, ">=", 0.85, 12),))
    build.record(f"a-wins-{TAIL}")
    build.record(f"b-near-{TAIL}", parity=near)
    build.record(f"c-slow-{TAIL}", net_win=slow(0.99))
    build.record(f"d-slower-{TAIL}", net_win=slow(0.70))
    build.record(f"e-dies-{TAIL}", parity=Crashed("parity", "CRASH", "signal 11"))
    build.record(f"f-wrong-{TAIL}", parity=Refusal("parity", "nan", "NaN"))
    assert "".join(row.record[0] for row in rows(build.collected)) == "fedcba"


@pytest.mark.parametrize("width", [80, 160], ids=["blocks", "table"])
@pytest.mark.parametrize("refused", [True, False], ids=["refused", "holds"])
def test_row_of_an_absent_device_is_marked_whatever_it_came_to(build: Builder, width: int, *, refused: bool) -> None:
    name = f"decoder_ffn-fast-{TAIL}"
    build.record(name, **{"parity": Refusal("parity", "nan", "NaN")} if refused else {})
    build.collected.emulated = {name: "thor"}
    text = " ".join("\n".join(render(rows(build.collected), width)).split())
    assert "emulated on cpu" in text
    assert "speed" in text
    assert "CERTIFIED" not in text


@pytest.mark.parametrize("width", [60, 80, 121, 122, 160, 240])
def test_every_line_fits_the_terminal(build: Builder, slow: Callable[[float], Refusal], width: int) -> None:
    build.record(build.long, net_win=slow(0.97))
    longest = max(map(len, render(rows(build.collected), width)))
    assert longest <= max(width, len(f"CORRECT_NOT_FASTER {build.long}"))


@pytest.mark.parametrize("width", [80, 160], ids=["blocks", "table"])
def test_row_tells_outcome_numbers_limits_and_reason(
    build: Builder, slow: Callable[[float], Refusal], width: int
) -> None:
    build.record(build.long, net_win=slow(0.97))
    text = " ".join(" ".join(render(rows(build.collected), width)).split())
    for said in ("CORRECT_NOT_FASTER", "top1.worst 0.96", "(>= 0.85)", "864/864", "0.970x", "no_win:"):
        assert said in text


def test_table_has_its_heads_and_blocks_start_with_the_retypable_id(build: Builder) -> None:
    build.record(build.long)
    assert next(render(rows(build.collected), 160)).split()[: len(HEADS) - 1] == [
        "outcome", "record", "parity", "ledger", "net",
    ]  # fmt: skip
    assert next(render(rows(build.collected), 80)).endswith(build.long)


def test_nothing_collected_prints_nothing(build: Builder) -> None:
    assert list(render(rows(build.collected), 160)) == []


def test_every_outcome_has_its_place_in_the_table() -> None:
    assert sorted(SEVERITY) == sorted(Outcome)
