"""Write ``docs/hosts.md``: what JSON reports of runs say of each host's seats.

Each argument is a report that ``pytest --frt-json=FILE`` wrote. A structure's row tells how many seats of it the host
has, in which phases they are called, and what came of each scheme: the seats that stand in its best record, or the
commonest reason where no record holds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from repo_tree import ROOT

PAGE: Final = ROOT / "docs" / "hosts.md"
NOT_SUPPORTED: Final = "NOT_SUPPORTED"
HEAD: Final = """\
# Hosts and their seats

What runs on a CPU came to, by host and structure. *Seats* counts those that a record of the structure judged. *Holds*
lists the schemes in which some impl keeps every correctness gate, with the seats that stand; *pays* those that a full
run certified. *Refused* has the reason of each scheme that no impl holds. Random hosts are judged at their seams, since
host parity of random weights says little; whether a seat pays is asked at real size only.

`python tools/host_table.py REPORT.json ...` writes this page from reports of
`pytest --frt-host=all --frt-size=tiny --frt-device=cpu --frt-no-timing --frt-json=REPORT.json` and of full runs.
"""


@dataclass
class Row:
    """One structure on one host.

    Attributes:
        seats: Distinct seats that some record of it judged.
        phases: Phases in which the host calls them.
        holds: Scheme to the seats that stand in its best record.
        pays: Schemes that were certified.
        refused: Scheme to reasons, counted.
    """

    seats: set[str] = field(default_factory=set)
    phases: set[str] = field(default_factory=set)
    holds: dict[str, int] = field(default_factory=dict)
    pays: set[str] = field(default_factory=set)
    refused: dict[str, Counter[str]] = field(default_factory=dict)


def _seats_of(gate: Mapping[str, Any]) -> set[str]:
    return {*gate["survivors"], *(refusal["at"] for refusal in gate["refused"])}


def note(row: Row, record: Mapping[str, Any]) -> None:
    """Take one record of a report in."""
    scheme = record["key"]["cell"]["scheme"]
    if record["outcome"] == NOT_SUPPORTED:
        return
    found: set[str] = set().union(*(_seats_of(gate) for gate in record["gates"].values()))
    row.seats |= found
    row.phases.add(record["key"]["phase"])
    standing = max((len(gate["survivors"]) for gate in record["gates"].values() if gate["gate"] == "ledger"), default=0)
    if record["correct"]:
        row.holds[scheme] = max(row.holds.get(scheme, 0), standing)
    else:
        row.refused.setdefault(scheme, Counter())[f"{record['gate']}: {record['reason']}"] += 1
    if record["outcome"] == "CERTIFIED":
        row.pays.add(scheme)


def rows_of(reports: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], dict[str, Row]]:
    """Return, by host and size, the rows of its structures."""
    table: dict[tuple[str, str], dict[str, Row]] = {}
    for report in reports:
        for record in report["records"]:
            cell = record["key"]["cell"]
            at = table.setdefault((cell["host"], record["key"]["size"]), {})
            note(at.setdefault(cell["structure"], Row()), record)
    return table


def _line(structure: str, row: Row) -> str:
    holds = ", ".join(f"{scheme} {count}" for scheme, count in sorted(row.holds.items())) or "-"
    refused = {scheme: reasons for scheme, reasons in row.refused.items() if scheme not in row.holds}
    said = "; ".join(f"{scheme}: {reasons.most_common(1)[0][0]}" for scheme, reasons in sorted(refused.items())) or "-"
    pays = ", ".join(sorted(row.pays)) or "-"
    return f"| {structure} | {len(row.seats)} | {', '.join(sorted(row.phases)) or '-'} | {holds} | {pays} | {said} |"


def _not_replaced(reports: Iterable[Mapping[str, Any]], host: str, size: str) -> list[str]:
    counted: Counter[str] = Counter()
    for report in reports:
        for one in report["hosts"]:
            if (one["host"], one["size"]) == (host, size):
                counted = max(counted, Counter(item["reason"] for item in one["not_replaced"]), key=Counter.total)
    return [f"{count} x {reason}" for reason, count in counted.most_common()]


def page(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    parts = [HEAD]
    for (host, size), rows in sorted(rows_of(reports).items()):
        parts.append(f"## {host}, {size}\n")
        parts.append(
            "| structure | seats | called in | holds: scheme and seats | pays | refused |\n|---|--:|---|---|---|---|"
        )
        parts += [_line(structure, row) for structure, row in sorted(rows.items()) if row.seats]
        absent = [structure for structure, row in sorted(rows.items()) if not row.seats]
        if absent:
            parts.append(f"\nNo seat that is called: {', '.join(absent)}.")
        if left := _not_replaced(reports, host, size):
            parts.append(f"\nLinears and norms that stay with the host: {'; '.join(left)}.\n")
    return "\n".join(parts).rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, help="JSON reports of runs")
    parser.add_argument("--out", type=Path, default=PAGE, help="markdown file to write")
    given = parser.parse_args(arguments)
    given.out.write_text(page([json.loads(file.read_text(encoding="utf-8")) for file in given.reports]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
