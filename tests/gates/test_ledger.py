from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import CallFacts, LedgerEntry
from pytest_frt.contracts.verdict import SeatVerdicts
from pytest_frt.gates import ledger

CALLS = [CallFacts(seat, "decode", 7, {"1": 3, "8": 2, "9": 2}, "float32") for seat in ("a", "b")]
SOUND = LedgerEntry("a", served=5, band=2, fallbacks=0, reasons={}, restored=False)
BANDS = {"a": (1, 8), "b": (1, 8)}


def judged(entry: LedgerEntry, calls: list[CallFacts] = CALLS, phase: str = "decode") -> SeatVerdicts:
    return ledger.judge([entry, replace(SOUND, seat="b")], calls, seats=("a", "b"), bands=BANDS, phase=phase)


def test_every_call_in_band_was_served() -> None:
    verdict = judged(SOUND)
    assert (verdict.survivors, verdict.refused) == (("a", "b"), ())
    assert {number.metric: (number.value, number.required) for number in verdict.measured} == {
        "fallbacks": (0, 0),
        "served": (10, 10),
    }


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param(replace(SOUND, served=0, band=7), "never_called", id="never_called"),
        pytest.param(replace(SOUND, served=4, fallbacks=1, reasons={"dtype": 1}), "fallbacks", id="one_fallback"),
        pytest.param(replace(SOUND, served=4), "served", id="a_call_went_elsewhere"),
        pytest.param(replace(SOUND, served=6), "served", id="a_call_too_many"),
        pytest.param(replace(SOUND, band=3), "band", id="band_dispatch_the_witness_did_not_see"),
        pytest.param(replace(SOUND, restored=True, reasons={"rows": 32}), "restored", id="given_back_to_the_host"),
        pytest.param(replace(SOUND, seat="c"), "no_entry", id="no_entry"),
    ],
)
def test_refusal_takes_one_seat(entry: LedgerEntry, reason: str) -> None:
    verdict = judged(entry)
    assert verdict.survivors == ("b",)
    assert [(refusal.at, refusal.reason) for refusal in verdict.refused] == [("a", reason)]


def test_fallback_reasons_are_said() -> None:
    verdict = judged(replace(SOUND, fallbacks=3, reasons={"dtype": 1, "rows": 2}))
    assert "dtype x1, rows x2" in verdict.refused[0].detail


@pytest.mark.parametrize(
    ("calls", "phase"),
    [(CALLS[1:], "decode"), (CALLS, "prefill"), ([replace(CALLS[0], by_rows={"9": 5}), CALLS[1]], "decode")],
    ids=["witness_saw_no_call", "other_phase", "only_out_of_band"],
)
def test_what_the_witness_did_not_see_is_not_clean(calls: list[CallFacts], phase: str) -> None:
    verdict = judged(SOUND, calls, phase)
    assert "a" not in verdict.survivors
    assert verdict.refused[0].reason == "never_called"


@pytest.mark.parametrize("second", [SOUND, replace(SOUND, served=4, fallbacks=1)], ids=["the_same", "another_count"])
def test_two_entries_of_one_seat_are_none(second: LedgerEntry) -> None:
    entries = [second, SOUND, replace(SOUND, seat="b")]
    verdict = ledger.judge(entries, CALLS, seats=("a", "b"), bands=BANDS, phase="decode")
    assert verdict.survivors == ("b",)
    assert [(refusal.at, refusal.reason) for refusal in verdict.refused] == [("a", "no_entry")]
