"""The committed table has a row for every mutant, with the gate and the words that its tests expect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mutant_table
import pytest
from mutant_table import Row

from tests.mutants.entries import REFUSED as MUTANTS
from tests.mutants.entry import Mutant


def stated(mutant: Mutant) -> tuple[str, ...]:
    return (mutant.seat, mutant.scheme, mutant.fault.name, mutant.gate)


def allowed(mutant: Mutant, place: str) -> list[str]:
    if place not in mutant.places:
        return ["not run there"]
    return mutant.expected(place).split("|")


def test_committed_table_is_that_of_the_entries(repository: Path) -> None:
    rows = mutant_table.listed((repository / "docs" / "mutants.md").read_text(encoding="utf-8"))
    assert [row[:4] for row in rows] == [stated(mutant) for mutant in MUTANTS]
    places = mutant_table.PLACES
    wrong = [
        (row, place)
        for row, mutant in zip(rows, MUTANTS, strict=True)
        for word, place in zip(row[4:], places, strict=True)
        if word not in allowed(mutant, place)
    ]
    assert wrong == []


REFUSED = Row("a", "none", "gain", "parity", "tiny", "gain", "gain", "seam.slope", 0.01, 0.002, "real#0")
TRAINED = replace(REFUSED, place="trained")


def test_row_is_read_back_as_it_was_written() -> None:
    other = Row("b", "none", "zeros", "contract", "tiny", "lifecycle", "lifecycle")
    text = "\n".join([mutant_table.BEGIN, *mutant_table.lines_of([REFUSED, TRAINED, other])])
    assert "| gain: seam.slope 0.01 > 0.002, real#0 |" in text
    assert mutant_table.listed(text) == [
        ("a", "none", "gain", "parity", "gain", "gain"),
        ("b", "none", "zeros", "contract", "lifecycle", "not run there"),
    ]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([REFUSED, TRAINED], "mutants: 1 of 1 refused (1 of them judged on trained weights as well)"),
        ([REFUSED], "mutants: 1 of 1 refused (0 of them judged on trained weights as well)"),
        (
            [REFUSED, replace(TRAINED, found="")],
            "mutants: 0 of 1 refused (1 of them judged on trained weights as well)",
        ),
        (
            [replace(REFUSED, expected="rows|gain")],
            "mutants: 1 of 1 refused (0 of them judged on trained weights as well)",
        ),
        ([replace(REFUSED, found="rows")], "mutants: 0 of 1 refused (0 of them judged on trained weights as well)"),
    ],
    ids=["everywhere", "tiny_only", "passes_once", "either_word", "wrong_word"],
)
def test_line_counts_what_was_refused_in_the_right_word_everywhere(rows: list[Row], line: str) -> None:
    assert mutant_table.summary(rows)[0] == line


def test_survivor_is_named() -> None:
    row = replace(REFUSED, found="")
    assert mutant_table.summary([REFUSED, replace(row, fault="gelu")]) == [
        "mutants: 1 of 2 refused (0 of them judged on trained weights as well)",
        "mutant survives on tiny: a none gelu",
    ]
    assert mutant_table.summary([]) == []


def test_property_comes_back_once_however_many_reports_carry_it() -> None:
    class Report:
        user_properties = ((mutant_table.PROPERTY, mutant_table.as_property(REFUSED)), ("other", "x"))

    assert mutant_table.rows([Report(), Report(), object()]) == [REFUSED]
