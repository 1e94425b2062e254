"""How long verification takes, beside ``json.loads`` of the payloads and one Ed25519 check each.

Both are run in pairs in one process, in an order drawn anew for each pair, on the same certificates. The ratio is the
median over pairs, with its order-statistic interval. Garbage collection stays on. Nothing is kept between runs that a
verifier in a fresh process would not have after its first certificate: loaded keys and names of files. A plan's
certificates are read, checked and composed together, its weights are not hashed (``weight_digest.py`` measures that).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import verify_data
from verify_data import Signed

from pytest_frt.certs import dsse
from pytest_frt.certs.verify import Accepted, verify_set
from pytest_frt.rules.exact import order_interval

RESULT: Final = Path(__file__).parent / "results" / "verify_speed.md"
LIMIT: Final = 16 * 1024
CONFIDENCE: Final = 0.95
MILLI: Final = 1e3


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to verify.

    Attributes:
        name: What it is.
        signed: The certificates.
        budget_ms: What it may take.
        pairs: How often it is measured.
    """

    name: str
    signed: Signed
    budget_ms: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of each pair."""

    ours: list[float]
    baseline: list[float]


def verification(signed: Signed) -> Callable[[], None]:
    """Return our whole verification; it raises when anything is refused."""

    def run() -> None:
        outcomes = verify_set(signed.lines, signed.trust, verify_data.NOW)
        if refused := [one for one in outcomes if not isinstance(one, Accepted)]:
            raise RuntimeError(f"{len(refused)} of {len(outcomes)} refused: {refused[0]}")

    return run


def baseline(signed: Signed) -> Callable[[], None]:
    """Return the least that any verifier does: parse each payload and check one signature over it."""
    found = [dsse.parse_envelope(line) for line in signed.lines]
    ready = [(one.payload, one.signatures[0].value, dsse.pae(one.payload)) for one in found]

    def run() -> None:
        for payload, signature, message in ready:
            json.loads(payload)
            if not signed.key.verifies(signature, message):
                raise RuntimeError("a signature does not verify")

    return run


def measure(case: Case) -> Timed:
    """Return the times of pairs, after one untimed run of each."""
    ours, theirs = verification(case.signed), baseline(case.signed)
    ours()
    theirs()
    timed = Timed([], [])
    order = random.Random(0)  # noqa: S311 (an order of measurement)
    for _ in range(case.pairs):
        todo = [(ours, timed.ours), (theirs, timed.baseline)]
        for run, kept in order.sample(todo, len(todo)):
            began = time.perf_counter()
            run()
            kept.append((time.perf_counter() - began) * MILLI)
    return timed


def row(case: Case, timed: Timed) -> str:
    """Return one line of the table."""
    cells = [case.name, f"{max(map(len, case.signed.lines)):,} / {max(map(len, case.signed.payloads)):,}"]
    ratios = [own / other for own, other in zip(timed.ours, timed.baseline, strict=True)]
    for values, digits in ((timed.ours, 2), (timed.baseline, 2), (ratios, 1)):
        interval = order_interval(values, CONFIDENCE)
        cells.append(
            f"{statistics.median(values):.{digits}f} ({interval.low:.{digits}f} to {interval.high:.{digits}f})"
        )
    verdict = "yes" if statistics.median(timed.ours) <= case.budget_ms else "no"
    return f"| {' | '.join(cells)} | {case.budget_ms:g}: {verdict} |"


def cases(pairs: int) -> list[Case]:
    """Return what is measured: one certificate, and plans of 200 seats in few and in as many certificates."""
    few = max(pairs // 20, 12)
    return [
        Case("one certificate", verify_data.one_certificate(LIMIT), 1.0, pairs),
        Case("plan of 200 seats: 8 cells of 25", verify_data.plan(8, 25), 100.0, few),
        Case("plan of 200 seats: 40 cells of 5", verify_data.plan(40, 5), 100.0, few),
        Case("plan of 200 seats: 200 cells of 1", verify_data.plan(200, 1), 100.0, few),
    ]


def main() -> int:
    """Measure, print and write the table; 1 when a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of the single certificate (default 1000)")
    parser.add_argument("--out", type=Path, default=RESULT, help="markdown file to write")
    args = parser.parse_args()
    lines = [
        "| what | largest line / payload, bytes | verification, ms | baseline, ms | ratio | budget, ms |",
        "|---|---|---|---|---|---|",
    ]
    lines += [row(case, measure(case)) for case in cases(args.pairs)]
    text = (
        f"# Speed of verification\n\n{os.cpu_count()} cores, Python {sys.version.split()[0]}. Medians of wall time "
        "with their 95 % intervals; see the head of `benchmarks/verify_speed.py`.\n\n" + "\n".join(lines) + "\n"
    )
    args.out.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return int("no |" in text)


if __name__ == "__main__":
    sys.exit(main())
