"""Edges of the small gates: the numbers behind a verdict, its place, and conditions that only one input tells apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import CallFacts, Check, LedgerEntry, NullControl
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, SeatVerdicts
from pytest_frt.gates import contract, ledger, null_control, union
from pytest_frt.gates.parity import ParityVerdict

HELD = Check("detach_exact", ok=True, detail="")
LOST = Check("pickle", ok=False, detail="lost")
RENAMED = Check("state_dict", ok=False, detail="renamed")


@pytest.mark.parametrize(
    ("checks", "failed", "at"),
    [([HELD], 0, ""), ([HELD, LOST, RENAMED], 2, "pickle"), ([HELD, RENAMED, LOST], 2, "state_dict")],
    ids=["held", "first_is_the_place", "in_the_order_given"],
)
def test_contract_counts_failures_and_names_the_first(checks: list[Check], failed: int, at: str) -> None:
    verdict = contract.judge(checks)
    assert isinstance(verdict, Pass | Refusal)
    assert verdict.measured == (Measured("failed", failed, "<=", 0, len(checks)),)
    assert (verdict.at if isinstance(verdict, Refusal) else "") == at


ENTRY = LedgerEntry("a", served=3, band=2, fallbacks=0, reasons={}, restored=False)
CALLS = [CallFacts("a", "decode", 5, {"1": 3, "9": 2}, "float32")]


def counted(entry: LedgerEntry, calls: list[CallFacts]) -> Refusal:
    (refusal,) = ledger.judge([entry], calls, seats=("a",), bands={"a": (1, 8)}, phase="decode").refused
    return refusal


def test_ledger_states_the_number_over_every_call_of_the_seat() -> None:
    assert counted(replace(ENTRY, band=1), CALLS).measured == (Measured("band", 1, "==", 2, 5, at="a"),)


def test_ledger_says_when_a_fallback_has_no_reason() -> None:
    assert "no reason recorded" in counted(replace(ENTRY, fallbacks=1), CALLS).detail


def test_ledger_has_seen_no_call_where_the_witness_saw_none() -> None:
    detail = counted(replace(ENTRY, served=0), []).detail
    assert detail == "seat a answered 0 calls; the host made 0 with 1 to 8 rows"


SOUND = NullControl(tensors=9, differing=(), missing=(), repeat_differing=(), rng_used=())


def test_null_control_passes_on_every_tensor() -> None:
    verdict = null_control.judge(SOUND, phase="decode", weights="trained")
    assert verdict == Pass("null_control", (Measured("tensors_differing", 0, "<=", 0, 9),))


@pytest.mark.parametrize("field", ["differing", "missing"])
def test_null_control_counts_tensors_and_names_the_first(field: str) -> None:
    spoiled = replace(SOUND, **{field: ("tower.w", "tower.b")})  # type: ignore[arg-type]
    verdict = null_control.judge(spoiled, phase="decode", weights="trained")
    assert isinstance(verdict, Refusal)
    assert (verdict.at, verdict.measured) == ("tower.w", (Measured("tensors_differing", 2, "<=", 0, 9),))


def test_one_tensor_compared_is_a_checkpoint_read() -> None:
    assert isinstance(null_control.judge(replace(SOUND, tensors=1), phase="decode", weights="trained"), Pass)


HOLDS = SeatVerdicts("parity", ("a", "b"))
PARITY = ParityVerdict(HOLDS, Pass("parity"))


def test_a_union_without_a_weaker_band_is_a_pass() -> None:
    verdict = union.judge(PARITY, SeatVerdicts("ledger", ("b", "a")), Pass("net_win"))
    assert verdict == Pass("union", band="pass")


@pytest.mark.parametrize(
    ("counted", "odd"), [((), "a, b"), (("a",), "b"), (("a", "b", "c"), "c")], ids=["nothing", "too_few", "too_many"]
)
def test_a_union_whose_ledger_counted_other_seats_is_refused(counted: tuple[str, ...], odd: str) -> None:
    verdict = union.judge(PARITY, SeatVerdicts("ledger", counted), Pass("net_win"))
    assert isinstance(verdict, Refusal)
    assert (verdict.gate, verdict.reason, verdict.at) == ("union", "unaccounted", odd[0])
    assert odd in verdict.detail
