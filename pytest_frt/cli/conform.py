"""``frt conform``: carry out the checks of the stage pipeline that a host runs, and print what each found."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tabulate import tabulate

from pytest_frt.contracts.pipeline import Broken, Finding, Holds, NotShown

if TYPE_CHECKING:
    from pytest_frt.fixtures.conformance import Checked, Conformance

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

WORDS: Final[Mapping[type[Finding], str]] = {Holds: "HOLDS", Broken: "BROKEN", NotShown: "NOT_SHOWN"}


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt conform``."""
    command = subparsers.add_parser("conform", help="carry out the checks of the stage pipeline that a host runs")
    command.add_argument("host", metavar="HOST", help="installed host, or the folder of one")
    command.add_argument("--size", default="tiny", help="size of the host (%(default)s)")
    command.add_argument("--seed", type=int, default=0, help="draws weights and samples (%(default)s)")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Carry out the checks and print a line for each.

    Returns:
        0 when nothing is broken, else 1; what could not be shown is printed and decides nothing.
    """
    from pytest_frt.fixtures.conformance import conform
    from pytest_frt.registry import Registry

    found = conform(args.host, args.size, args.seed, Registry.load())
    if args.json:
        print(json.dumps(_entry(found), indent=1))
    else:
        print(_page(found))
    return 1 if found.broken else 0


def word(found: Finding) -> tuple[str, str]:
    """Return outcome and sentence of a finding as a person reads them."""
    match found:
        case Holds(detail=detail):
            return WORDS[Holds], detail
        case Broken(reason=reason, detail=detail):
            return f"{WORDS[Broken]}({reason})", detail
        case NotShown(why=why):
            return WORDS[NotShown], why


def _measured(found: Finding) -> dict[str, float]:
    return {} if isinstance(found, NotShown) else dict(found.measured)


def _entry(found: Conformance) -> dict[str, Any]:
    def check(one: Checked) -> dict[str, Any]:
        outcome, detail = word(one.found)
        return {"name": one.spec.name, "outcome": outcome, "detail": detail, "measured": _measured(one.found)}

    pipeline = {"name": found.pipeline.name, "version": found.pipeline.version, "digest": found.pipeline.digest}
    return {
        "host": found.host,
        "size": found.size,
        "pipeline": pipeline,
        "checks": [check(one) for one in found.checks],
    }


def _page(found: Conformance) -> str:
    rows = [(one.spec.name, *word(one.found)) for one in found.checks]
    table = tabulate(rows, headers=("check", "outcome", "what was seen"), tablefmt="plain").splitlines()
    lines = [f"{found.host} ({found.size}) as {found.pipeline.name} version {found.pipeline.version}"]
    for line, one in zip(table, [None, *found.checks], strict=True):
        lines.append(f"  {line.rstrip()}")
        if one is not None and (numbers := _measured(one.found)):
            lines.append("      " + ", ".join(f"{name} {value:g}" for name, value in numbers.items()))
    counts = Counter(type(one.found) for one in found.checks)
    return "\n".join([*lines, ", ".join(f"{counts[kind]} {name}" for kind, name in WORDS.items())])
