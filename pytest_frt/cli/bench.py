"""``frt bench``: the development bench. One lever on one host, in pairs, with the base timed again at the end."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.errors import StorageFault, UsageFault
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from pytest_frt.fixtures.lever import Asked, Finding

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

JOURNAL: Final = "frt-bench.jsonl"
SCHEMA: Final = 1
PAYS: Final = "PAYS"
REFUSED: Final = "REFUSED"
NO_WIN: Final = 6
"""Exit code of a lever that is right and does not pay, as of a run that certifies nothing and fails nothing."""
LEAST_PAIRS: Final = 12
"""Six units: the fewest that give an interval of the median at 95 %."""


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt bench``."""
    command = subparsers.add_parser("bench", help="time one impl on one host while it is written; certifies nothing")
    command.add_argument("impl", metavar="IMPL", help="<structure>/<name> of an installed impl, or its file")
    command.add_argument("--host", required=True, help="installed host, or the folder of one")
    command.add_argument("--scheme", default="", help="scheme; needed when the impl runs several")
    command.add_argument("--size", default="tiny", help="size of the host (%(default)s)")
    command.add_argument("--phase", default="", help="row regime; the host's first when left out")
    command.add_argument("--form", default="eager", help="eager or compiled (%(default)s)")
    command.add_argument("--pairs", type=int, default=20, help="pairs of base and impl (%(default)s)")
    command.add_argument("--threads", type=int, default=0, help="threads; those of this machine when left out")
    command.add_argument("--seed", type=int, default=0, help="draws weights, inputs and orders (%(default)s)")
    command.add_argument("--kernel", default="", metavar="PATH", help="folder of a local kernel build")
    command.add_argument(
        "--out", default="", metavar="DIR", help=f"where {JOURNAL} is kept; this directory when left out"
    )
    command.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Time the lever, write the journal and print what came of it.

    Returns:
        0 when it pays, 6 when it is right and does not, 1 when it is wrong or died.

    Raises:
        UsageFault: a word that does not exist, several levers at once, or too few pairs.
        StorageFault: the journal cannot be written.
    """
    from pytest_frt.fixtures import lever

    asked = _asked(args)
    journal = Path(args.out or ".") / JOURNAL
    found = lever.measure(asked, os.environ)
    entry = _entry(asked, found)
    refusals = sum(line.get("lever") == entry["lever"] and line["outcome"] != PAYS for line in read(journal))
    _append(journal, entry)
    for line in lines(asked, found, refusals):
        print(line)
    print(f"written to {journal}")
    match found:
        case lever.Pays():
            return 0
        case lever.NoWin():
            return NO_WIN
        case lever.Wrong():
            return 1


def _asked(args: argparse.Namespace) -> Asked:
    from pytest_frt.fixtures.cells import LiveCell
    from pytest_frt.fixtures.lever import Asked
    from pytest_frt.fixtures.specs import CellSpec
    from pytest_frt.registry import Registry

    if args.pairs < LEAST_PAIRS or args.pairs % 2:
        raise UsageFault(
            f"--pairs={args.pairs}: needs an even number from {LEAST_PAIRS}", hint="pairs make AB/BA units"
        )
    is_file = args.impl.endswith(".py")
    structure, _, name = args.impl.rpartition("/")
    if not is_file and not structure:
        raise UsageFault(f"{args.impl!r} is neither a file nor <structure>/<name>", hint="frt list impls")
    words = {
        "structure": Path(args.impl).resolve().parent.name if is_file else structure,
        "impl": str(Path(args.impl).resolve()) if is_file else name,
        **{word: getattr(args, word) for word in ("host", "scheme", "size", "phase", "kernel", "seed")},
    }
    registry = Registry.load()
    cells = list(CellSpec.of(words, Path.cwd()).each(registry))
    if len(cells) > 1:
        schemes = ", ".join(cell.scheme for cell in cells)
        raise UsageFault(f"{args.impl} runs {schemes}: one lever at a time", hint=f"--scheme={cells[0].scheme}")
    return Asked(LiveCell(cells[0], registry), args.form, args.pairs, args.threads)


def _entry(asked: Asked, found: Finding) -> dict[str, Any]:
    """Return what the journal keeps: identity, numbers and outcome of one run."""
    from pytest_frt.fixtures.pairs import NOTE

    outcome, reason = _words(found)
    return {
        "schema": SCHEMA,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "lever": asked.name,
        "impl_digest": file_digest(asked.cell.impl_file),
        "outcome": outcome,
        "reason": reason,
        "detail": found.detail,
        **_numbers(found),
        "note": NOTE,
    }


def _words(found: Finding) -> tuple[str, str]:
    """Return outcome and reason as the journal and a person read them."""
    from pytest_frt.fixtures import lever

    match found:
        case lever.Pays():
            return PAYS, ""
        case lever.NoWin(doubt=doubt):
            return REFUSED, doubt.value
        case lever.Wrong(fault=fault):
            return REFUSED, fault.value


def _numbers(found: Finding) -> dict[str, Any]:
    from pytest_frt.fixtures import lever

    if isinstance(found, lever.Wrong):
        return {}
    timed, timing = found.timed, found.timed.lever
    return {
        "median": timing.median,
        "low": timing.interval.low,
        "high": timing.interval.high,
        "confidence": timing.confidence,
        "units": timing.units,
        "repeats": timing.repeats,
        "base_s": timing.base_s,
        "candidate_s": timing.candidate_s,
        "base_again_s": timed.again.base_s,
        "drift": timed.drift,
        "base_against_base": timed.again.median,
    }


def lines(asked: Asked, found: Finding, refusals: int = 0) -> Iterator[str]:
    """Yield what a person reads.

    Args:
        asked: What was timed.
        found: What came of it.
        refusals: Earlier entries of the journal in which this lever was refused.
    """
    from pytest_frt.fixtures import lever
    from pytest_frt.fixtures.pairs import NOTE

    yield asked.name
    if not isinstance(found, lever.Wrong):
        timing, again, drift = found.timed.lever, found.timed.again, found.timed.drift
        low, high = timing.interval.low, timing.interval.high
        yield f"  {timing.median:.3f}x [{low:.3f}, {high:.3f}] of {len(timing.units)} units ({timing.confidence:.0%})"
        yield f"  base {timing.base_s * 1e3:.3f} ms, impl {timing.candidate_s * 1e3:.3f} ms"
        yield (
            f"  base again at the end {again.base_s * 1e3:.3f} ms: drift {drift:+.1%}, base against base "
            f"{again.median:.3f}x [{again.interval.low:.3f}, {again.interval.high:.3f}]"
        )
    outcome, reason = _words(found)
    word = f"{outcome}({reason})" if reason else outcome
    first, *more = found.detail.splitlines() or [""]
    yield f"  {word}: {first}"
    yield from (f"    {line}" for line in more)
    if refusals:
        yield f"  refused {refusals} times before"
    yield f"  {NOTE}: pytest --frt-host={asked.cell.host} certifies"


def read(journal: Path) -> list[dict[str, Any]]:
    """Return the entries of a journal, none when there is no file yet.

    Raises:
        StorageFault: the file is damaged.
    """
    if not journal.exists():
        return []
    try:
        found = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, ValueError) as fault:
        raise StorageFault(f"{journal} is damaged: {fault}", hint="move it away to begin another") from fault
    return [entry for entry in found if isinstance(entry, dict) and "outcome" in entry]


def _append(journal: Path, entry: dict[str, Any]) -> None:
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        with journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    except OSError as fault:
        raise StorageFault(f"{journal} cannot be written: {fault.strerror}", hint="give another --out") from fault
