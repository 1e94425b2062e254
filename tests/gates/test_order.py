from __future__ import annotations

from pytest_frt.gates import GATES
from pytest_frt.rules.fold import CORRECTNESS_GATES, PLAN_GATES, RECORD_GATES


def test_order_of_the_gates() -> None:
    names = tuple(gate.name for gate in GATES)
    assert names == ("null_control", "seats", "parity", "ledger", "contract", "net_win", "union")
    assert names == (*RECORD_GATES, *PLAN_GATES)
    assert RECORD_GATES[:-1] == CORRECTNESS_GATES


def test_every_gate_is_one_function_of_its_module() -> None:
    for gate in GATES:
        assert gate.judge.__module__ == f"pytest_frt.gates.{gate.name}"
        assert gate.judge.__name__ == "judge"
