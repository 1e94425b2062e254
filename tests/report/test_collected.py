"""Messages fold into outcomes; what does not count is never stated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytest_frt.contracts.verdict import NotRun, Outcome, Pass, Refusal
from pytest_frt.report.collected import Collected
from pytest_frt.report.told import Fault, Told
from pytest_frt.run.results import GateResult
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from tests.report.conftest import Builder

NAME = "ffn-fast-toy-w16a32-cpu@eager.decode.real.hot"


def tell(collected: Collected, *gates: str, flaw: str = "") -> None:
    for gate in gates:
        collected.add(Told(NAME, gate, result=GateResult(NAME, gate, Pass(gate))), flaw=flaw)


def test_message_survives_the_way_to_the_controller() -> None:
    result = GateResult(NAME, "parity", Refusal("parity", "nan", "NaN", at="layers.0"), ("a",), (), 0.5)
    for told in (Told(NAME, "parity", result=result), Told(NAME, "parity", fault=Fault("CHECKPOINT", "no", 4))):
        assert codec.loads(Told, codec.dumps(told)) == told


def test_gates_that_hold_without_a_record_are_not_certified(build: Builder) -> None:
    build.record(NAME, proven=False)
    found = build.collected.folded(NAME)
    assert (found.outcome, found.reason, found.correct) == (Outcome.NOT_RUN, "not_counted", True)
    assert build.collected.exit_code(timing=True) == 6


def test_refusal_counts_although_earlier_gates_were_left_out() -> None:
    collected = Collected()
    collected.add(Told(NAME, "parity", result=GateResult(NAME, "parity", Refusal("parity", "nan", "NaN"))))
    assert collected.folded(NAME).outcome is Outcome.REFUSED
    assert collected.exit_code(timing=True) == 1


def test_gate_left_out_is_named() -> None:
    collected = Collected()
    tell(collected, "null_control", "seats", "parity", "contract", "net_win")
    found = collected.folded(NAME)
    assert (found.outcome, found.gate, found.detail) == (Outcome.NOT_RUN, "ledger", "gate ledger was not judged")


def test_fault_names_the_gate_that_was_reached() -> None:
    collected = Collected()
    tell(collected, "null_control")
    collected.add(Told(NAME, "seats", fault=Fault("CHECKPOINT", "cannot be read", 4)))
    found = collected.folded(NAME)
    assert (found.outcome, found.gate, found.reason) == (Outcome.NOT_RUN, "seats", "checkpoint")
    assert collected.exit_code(timing=True) == 4


def test_later_gates_that_were_not_run_do_not_hide_the_cause(build: Builder, slow: Callable[[float], Refusal]) -> None:
    build.record(NAME, parity=Refusal("parity", "gain", "0.01"), ledger=NotRun("ledger", "parity"), net_win=slow(0.9))
    assert build.collected.folded(NAME).reason == "gain"


@pytest.mark.parametrize("flaw", ["reported as skipped", "expected to fail"])
def test_flawed_item_taints_its_record(flaw: str) -> None:
    collected = Collected()
    tell(collected, "parity", flaw=flaw)
    assert collected.tainted == {NAME: f"parity was {flaw}"}


def test_gate_told_twice_taints_its_record() -> None:
    collected = Collected()
    tell(collected, "parity", "parity")
    assert collected.tainted == {NAME: "parity was judged twice"}
