"""Properties of an item: outcome word, subject, gate, reason and every number with its limit."""

from __future__ import annotations

from pytest_frt.contracts.verdict import Invalid, Measured, NotRun, Pass, Refusal
from pytest_frt.report import properties
from pytest_frt.report.told import Fault, Told
from pytest_frt.run.results import GateResult, UnionResult

NAME = "ffn-fast-toy-w16a32-cpu@eager.decode.real.hot"


def test_gate_that_holds_tells_its_numbers() -> None:
    numbers = (
        Measured("pooled_median", 1.31, ">", 1.02, 24),
        Measured("process_median", 1.3, ">", 1.01, 1, "process 0"),
    )
    told = Told(NAME, "net_win", result=GateResult(NAME, "net_win", Pass("net_win", numbers), ("a", "b"), (), 0.25))
    assert properties.of(told) == {
        "frt_subject": NAME,
        "frt_gate": "net_win",
        "frt_outcome": "PASSED",
        "frt_seats": "2 stand, 0 refused",
        "frt_seconds": "0.250",
        "frt.pooled_median": "1.31 > 1.02",
        "frt.process_median.process_0": "1.3 > 1.01",
    }


def test_refusal_tells_word_and_reason() -> None:
    refused = Refusal("parity", "gain", "slope 0.01", at="layers.0")
    told = Told(NAME, "parity", result=GateResult(NAME, "parity", refused, (), (refused,)))
    found = properties.of(told)
    assert (found["frt_outcome"], found["frt_reason"]) == ("REFUSED", "gain: slope 0.01")
    assert found["frt_seats"] == "0 stand, 1 refused"


def test_guard_and_cause_are_reasons() -> None:
    invalid = Told(NAME, "net_win", result=GateResult(NAME, "net_win", Invalid("net_win", "canary", "1.2")))
    after = Told(NAME, "ledger", result=GateResult(NAME, "ledger", NotRun("ledger", "parity")))
    assert properties.of(invalid)["frt_reason"] == "canary: 1.2"
    assert (properties.of(after)["frt_outcome"], properties.of(after)["frt_reason"]) == ("NOT_RUN", "parity")


def test_union_and_fault_have_theirs() -> None:
    union = Told("toy-cpu", "union", union=UnionResult("toy-cpu", Refusal("union", "host_band", "top-1 0.8")))
    fault = Told(NAME, "seats", fault=Fault("CHECKPOINT", "cannot be read", 4))
    assert properties.of(union)["frt_outcome"] == "REFUSED"
    assert (properties.of(fault)["frt_outcome"], properties.of(fault)["frt_reason"]) == ("CHECKPOINT", "cannot be read")
