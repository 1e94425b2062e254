"""The page of hosts says what reports say: best record of a scheme, commonest reason where none holds."""

from __future__ import annotations

from typing import Any

import host_table


def record(
    scheme: str, outcome: str, *, correct: bool, stand: int, refused: int = 0, reason: str = ""
) -> dict[str, Any]:
    cell = {"structure": "linear_proj", "impl": "any", "host": "toy", "scheme": scheme, "device": "cpu"}
    gate = {
        "gate": "ledger",
        "survivors": [f"kept.{index}" for index in range(stand)],
        "refused": [{"at": f"lost.{index}"} for index in range(refused)],
    }
    key = {"cell": cell, "form": "eager", "phase": "decode", "size": "tiny", "cache": "hot"}
    return {
        "key": key,
        "outcome": outcome,
        "gate": "parity",
        "reason": reason,
        "correct": correct,
        "gates": {"x": gate},
    }


def page(*records: dict[str, Any], left: tuple[str, ...] = ()) -> list[str]:
    replaced = [{"path": f"at.{index}", "kind": "norm", "reason": reason} for index, reason in enumerate(left)]
    report = {"records": list(records), "hosts": [{"host": "toy", "size": "tiny", "not_replaced": replaced}]}
    return host_table.page([report]).splitlines()


def test_best_record_of_a_scheme_counts_and_certified_ones_pay() -> None:
    lines = page(
        record("none", "CORRECT_NOT_FASTER", correct=True, stand=2, refused=1),
        record("none", "CERTIFIED", correct=True, stand=3),
        record("w16a32", "REFUSED", correct=False, stand=0, refused=3, reason="gain"),
    )
    assert "| linear_proj | 6 | decode | none 3 | none | w16a32: parity: gain |" in lines


def test_scheme_that_holds_somewhere_is_not_told_as_refused() -> None:
    lines = page(
        record("none", "REFUSED", correct=False, stand=0, refused=1, reason="gain"),
        record("none", "NOT_RUN", correct=True, stand=1),
    )
    assert "| linear_proj | 2 | decode | none 1 | - | - |" in lines


def test_cell_that_is_not_supported_counts_no_seat() -> None:
    assert "No seat that is called: linear_proj." in page(record("none", "NOT_SUPPORTED", correct=False, stand=0))


def test_reasons_of_what_stays_are_counted() -> None:
    lines = page(record("none", "NOT_RUN", correct=True, stand=1), left=("no bias", "no bias", "other"))
    assert "Linears and norms that stay with the host: 2 x no bias; 1 x other." in lines
