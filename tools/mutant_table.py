"""Write docs/mutants.md: what each mutant's gate measured, from a run of the mutants."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from repo_tree import ROOT

PROPERTY: Final = "mutant"
"""Name of the property that a test of a mutant records."""
PLACES: Final = ("tiny", "trained")
BEGIN: Final = "<!-- generated: python tools/mutant_table.py -->"
PLAIN: Final = 100.0
"""Numbers from here on are written without an exponent."""
TABLE: Final = ROOT / "docs" / "mutants.md"


@dataclass(frozen=True, slots=True)
class Row:
    """What one gate said of one mutant on one place.

    Attributes:
        seat: Seat that the mutant sits on.
        scheme: Scheme it runs.
        fault: What is wrong with it.
        gate: Gate meant for it.
        place: ``tiny`` or ``trained``.
        found: Reason of the refusal, empty when it passed.
        expected: Reason it must be refused for, ``a|b`` where either is right.
        number: Metric furthest over its limit.
        value: Its value, unitless.
        limit: Its limit.
        at: Case it was seen in.
    """

    seat: str
    scheme: str
    fault: str
    gate: str
    place: str
    found: str
    expected: str
    number: str = ""
    value: float = 0.0
    limit: float = 0.0
    at: str = ""

    @property
    def mutant(self) -> tuple[str, str, str]:
        """Return what names the mutant."""
        return self.seat, self.scheme, self.fault

    @property
    def as_expected(self) -> bool:
        """Report whether the gate said what it must."""
        return self.found in self.expected.split("|")


def as_property(row: Row) -> str:
    """Return a row as a test records it: text, which survives any way a report travels."""
    return json.dumps(asdict(row))


def rows(reports: Iterable[Any]) -> list[Row]:
    """Return the rows that tests recorded, once each: a report comes with every phase of its test."""
    found = {
        text: Row(**json.loads(text))
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name == PROPERTY
    }
    return list(found.values())


def summary(found: Sequence[Row]) -> list[str]:
    """Return the lines that end a run: how many mutants were refused everywhere they ran, and which survive."""
    judged: dict[tuple[str, str, str], list[Row]] = {}
    for row in found:
        judged.setdefault(row.mutant, []).append(row)
    meant = list(judged.values())
    if not judged:
        return []
    refused = sum(all(row.found and row.as_expected for row in each) for each in meant)
    trained = sum(any(row.place == "trained" for row in each) for each in meant)
    lines = [f"mutants: {refused} of {len(meant)} refused ({trained} of them judged on trained weights as well)"]
    lines += [
        f"mutant survives on {' and '.join(row.place for row in each if not row.found)}: {' '.join(names)}"
        for names, each in judged.items()
        if any(not row.found for row in each)
    ]
    return lines


def cells(row: Row | None) -> str:
    """Return what stands in the column of a place."""
    if row is None:
        return "not run there"
    if not row.found:
        return "passes"
    if not row.number:
        return row.found
    where = f", {row.at}" if row.at else ""
    value = f"{row.value:.2g}" if row.value < PLAIN else f"{row.value:,.0f}"
    return f"{row.found}: {row.number} {value} > {row.limit:g}{where}"


def lines_of(found: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of the table, in the order in which the mutants ran."""
    yield "| seat | scheme | fault | gate | tiny host | trained weights |"
    yield "|---|---|---|---|---|---|"
    by_place = {(row.mutant, row.place): row for row in found}
    for mutant in dict.fromkeys(row.mutant for row in found):
        each = [by_place.get((mutant, place)) for place in PLACES]
        gate = next(row.gate for row in each if row)
        yield f"| {' | '.join(mutant)} | {gate} | {' | '.join(map(cells, each))} |"


def listed(text: str) -> list[tuple[str, ...]]:
    """Return seat, scheme, fault and gate, and the words of both places, of every row of a written table."""
    table = [line.strip("| ").split(" | ") for line in text.partition(BEGIN)[2].splitlines() if line.startswith("| ")]
    return [(*cell[:4], *(one.partition(":")[0] for one in cell[4:])) for cell in table[1:]]


class Collector:
    """A pytest plugin that keeps the reports of a run."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    def pytest_runtest_logreport(self, report: object) -> None:
        """Keep a report."""
        self.reports.append(report)


def main() -> int:
    """Run the mutants and write their table.

    Returns:
        0, or pytest's exit code when a test failed: the table is then left as it was.
    """
    import pytest

    kept = Collector()
    code = pytest.main(["-q", "-p", "no:cacheprovider", str(ROOT / "tests" / "mutants" / "test_mutants.py")], [kept])
    if code:
        return int(code)
    found = rows(kept.reports)
    if not any(row.place == "trained" for row in found):
        sys.stderr.write("the trained weights are not at hand: the table is left as it was\n")
        return 1
    head = TABLE.read_text(encoding="utf-8").partition(BEGIN)[0]
    said = ["```", *summary(found), "```"]
    TABLE.write_text("\n".join([f"{head}{BEGIN}", "", *said, "", *lines_of(found), ""]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
