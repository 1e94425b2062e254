"""``frt compare A.json B.json``: what got worse from one report to the next; 1 when anything did."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.report import compare

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt compare``."""
    command = subparsers.add_parser("compare", help="compare two JSON reports; exit status 1 when anything got worse")
    command.add_argument("before", metavar="A", type=Path, help="earlier report of --frt-json")
    command.add_argument("now", metavar="B", type=Path, help="later report")
    command.add_argument(
        "--fail",
        metavar="EXPR",
        action="append",
        help="what counts as worse: outcome, ratio, ratio:2%%, parity:10%% (repeatable, commas); "
        f"default: {', '.join(map(str, compare.SHOWN))}",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(func=show)


def show(args: argparse.Namespace) -> int:
    """Print a line per change; 1 when there is one.

    Raises:
        UsageFault: a file is no report, or a rule is unknown.
    """
    words = [word for given in args.fail or () for word in given.split(",")]
    rules = tuple(map(compare.parse, words)) or compare.SHOWN
    before, now = compare.read(args.before), compare.read(args.now)
    changes = compare.compare(before, now, rules, whole=True)
    common = [name for name in now.seen if name in before.seen]
    if args.json:
        said = [{"subject": one.subject, "gate": one.gate, "rule": one.rule, "text": one.text} for one in changes]
        print(json.dumps({"compared": len(common), "worse": said}, indent=1))
        return 1 if changes else 0
    for one in changes:
        print(f"WORSE {one.subject} [{one.rule}] {one.text}")
    if before.machine != now.machine:
        print(f"machines differ: {before.machine} before, {now.machine} now")
    fresh = len(now.seen) - len(common)
    print(f"{len(common)} compared, {len(changes)} worse, {fresh} new, by {', '.join(map(str, rules))}")
    return 1 if changes else 0
