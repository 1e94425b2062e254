"""This run beside an earlier one: what got worse, by which rule. Reads JSON reports; judges nothing else.

Rules are written as ``outcome`` (a worse outcome word), ``ratio`` (a slower ratio whose 99 % interval lies below the
earlier one), ``ratio:2%`` (a pooled median that fell by more than 2 %) and ``parity:10%`` (a number that moved towards
its limit by more than 10 % of what that limit allows).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pytest_frt.contracts.verdict import Measured, NotRun, Outcome, Pass, Verdict
from pytest_frt.errors import UsageFault
from pytest_frt.registry import did_you_mean
from pytest_frt.report.margins import headroom, measured
from pytest_frt.report.table import SEVERITY

SCHEMA_STEM: Final = "frt-report/"
TIMED: Final = ("net_win", "union")
PARITY: Final = "parity"
_RULE: Final = re.compile(r"([a-z]+)(?::\s*(\d+(?:\.\d+)?)\s*%)?\Z")


class Kind(StrEnum):
    """What a rule looks at."""

    OUTCOME = "outcome"
    RATIO = "ratio"
    PARITY = "parity"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        kind: What it looks at.
        share: How much worse is let through, 0.02 for 2 %; None where the rule has no number.
    """

    kind: Kind
    share: float | None = None

    def __str__(self) -> str:
        """Return it as it was written."""
        return self.kind.value if self.share is None else f"{self.kind.value}:{100 * self.share:.4g}%"


SHOWN: Final = (Rule(Kind.OUTCOME), Rule(Kind.RATIO))
"""What counts as worse when nobody says: neither needs a number."""


def parse(text: str) -> Rule:
    """Read one rule.

    Raises:
        UsageFault: an unknown word, or a number where none belongs or none where one does.
    """
    found = _RULE.match(text.strip())
    kinds = [kind.value for kind in Kind]
    if not found or found[1] not in kinds:
        raise UsageFault(f"comparison rule {text!r} is unknown", hint=did_you_mean(text.partition(":")[0], kinds))
    kind, share = Kind(found[1]), None if found[2] is None else float(found[2]) / 100
    if kind is Kind.PARITY and share is None:
        raise UsageFault("comparison rule 'parity' needs a share of what a limit allows", hint="parity:10%")
    if kind is Kind.OUTCOME and share is not None:
        raise UsageFault(f"comparison rule {text!r}: an outcome has no share", hint="outcome")
    return Rule(kind, share)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a report says of one record or union.

    Attributes:
        outcome: Outcome word.
        numbers: Gate to the numbers of its verdict.
        held: Gates whose verdict is a pass.
        emulated: A CPU was judged in the place of the device.
    """

    outcome: Outcome
    numbers: Mapping[str, tuple[Measured, ...]]
    held: frozenset[str]
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier report.

    Attributes:
        source: Where it was read.
        seen: Record key id or union name to what it says.
        machine: Name of the CPU it ran on.
    """

    source: str
    seen: Mapping[str, Seen]
    machine: str


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that got worse.

    Attributes:
        subject: Record key id or union name.
        gate: Gate it shows at; empty for the outcome as a whole.
        rule: The rule it breaks, as written.
        text: Sentence with both values.
    """

    subject: str
    gate: str
    rule: str
    text: str


def read(path: Path) -> Earlier:
    """Read a JSON report of any version.

    Raises:
        UsageFault: missing, or no report.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as fault:
        raise UsageFault(f"report {path} cannot be read: {fault.strerror}", hint="name a file of --frt-json") from fault
    except ValueError as fault:
        raise UsageFault(f"{path} is no JSON report: {fault}", hint="name a file of --frt-json") from fault
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith(SCHEMA_STEM):
        raise UsageFault(f"{path} is no JSON report of a run: its schema is not {SCHEMA_STEM}N", hint="--frt-json=FILE")
    try:
        return of_document(document, str(path))
    except (KeyError, TypeError, ValueError, IndexError) as fault:
        raise UsageFault(f"{path} is a damaged report: {fault!r}", hint="write it again with --frt-json") from fault


def of_document(document: Mapping[str, Any], source: str) -> Earlier:
    """Take what is compared out of a report's JSON values."""
    seen = {
        one["id"]: _seen(one, {name: gate["verdict"] for name, gate in one["gates"].items()})
        for one in document["records"]
    }
    seen |= {one["id"]: _seen(one, {"union": one["result"]["verdict"]}) for one in document["unions"]}
    return Earlier(source, seen, document["machine"][0]["name"])


def _seen(one: Mapping[str, Any], verdicts: Mapping[str, Any]) -> Seen:
    numbers = {name: tuple(_numbers(verdict)) for name, verdict in verdicts.items()}
    held = frozenset(name for name, verdict in verdicts.items() if verdict["type"] == Pass.__name__)
    return Seen(Outcome(one["outcome"]), numbers, held, bool(one.get("emulated")))


def like(report: Earlier, emulated: Collection[str]) -> Earlier:
    """Return a report without what was judged by a CPU and is now judged on the device, or the other way round."""
    seen = {name: one for name, one in report.seen.items() if one.emulated == (name in emulated)}
    return replace(report, seen=seen)


def _numbers(verdict: Mapping[str, Any]) -> Iterator[Measured]:
    for one in verdict.get("measured", ()):
        if one["value"] is not None:
            yield Measured(one["metric"], float(one["value"]), one["op"], float(one["required"]), one["n"], one["at"])


def of_gate(before: Seen, subject: str, verdict: Verdict, rules: Sequence[Rule]) -> tuple[Change, ...]:
    """Return what got worse at one gate: shown on the item that judges it."""
    gate, numbers = verdict.gate, measured(verdict)
    out: list[Change] = []
    if Rule(Kind.OUTCOME) in rules and gate in before.held and not isinstance(verdict, Pass | NotRun):
        out.append(Change(subject, gate, Kind.OUTCOME.value, f"gate {gate} held before"))
    return (*out, *_moved(subject, gate, before.numbers.get(gate, ()), numbers, rules))


def of_subject(before: Seen, now: Seen, subject: str, rules: Sequence[Rule]) -> tuple[Change, ...]:
    """Return everything that got worse about one record or union."""
    out: list[Change] = []
    worse = SEVERITY.index(now.outcome) < SEVERITY.index(before.outcome)
    if Rule(Kind.OUTCOME) in rules and worse:
        out.append(Change(subject, "", Kind.OUTCOME.value, f"{before.outcome.value} before, {now.outcome.value} now"))
    for gate, numbers in now.numbers.items():
        out += _moved(subject, gate, before.numbers.get(gate, ()), numbers, rules)
    return tuple(out)


def compare(before: Earlier, now: Earlier, rules: Sequence[Rule], *, whole: bool) -> tuple[Change, ...]:
    """Return everything that got worse between two reports, in the order of the later one.

    What a CPU showed in the place of a device is never held against what the device showed.

    Args:
        before: The earlier report.
        now: The later one.
        rules: What counts as worse.
        whole: What the later report lacks is lost; False where it may have been left out on purpose.
    """
    stands_in = {name for name, one in now.seen.items() if one.emulated}
    alike = like(before, stands_in).seen
    out = [c for name, one in now.seen.items() if (old := alike.get(name)) for c in of_subject(old, one, name, rules)]
    for name, old in before.seen.items() if whole and Rule(Kind.OUTCOME) in rules else ():
        lost = "not judged" if name not in now.seen else "emulated" if name in stands_in and not old.emulated else ""
        if lost:
            out.append(Change(name, "", Kind.OUTCOME.value, f"{old.outcome.value} before, {lost} now"))
    return tuple(out)


def _moved(
    subject: str, gate: str, before: Sequence[Measured], now: Sequence[Measured], rules: Sequence[Rule]
) -> Iterator[Change]:
    for rule in rules:
        if rule.kind is Kind.RATIO and gate in TIMED and (text := _slower(before, now, rule.share)):
            yield Change(subject, gate, str(rule), text)
        if rule.kind is Kind.PARITY and gate == PARITY and rule.share is not None:
            yield from (Change(subject, gate, str(rule), text) for text in _nearer(before, now, rule.share))


def _value(numbers: Sequence[Measured], metric: str) -> float | None:
    return next((one.value for one in numbers if one.metric == metric), None)


def _slower(before: Sequence[Measured], now: Sequence[Measured], share: float | None) -> str:
    """Return a sentence when the ratio fell: by more than a share, or, without one, out of its interval."""
    was, has = _value(before, "pooled_median"), _value(now, "pooled_median")
    if was is None or has is None:
        return ""
    low, high = _value(before, "interval_low"), _value(now, "interval_high")
    apart = low is not None and high is not None and high < low
    if not (apart if share is None else has < was * (1 - share)):
        return ""
    told = "" if low is None or high is None else f", 99 % interval from {low:.3f} before, to {high:.3f} now"
    return f"ratio {was:.3f}x before, {has:.3f}x now ({100 * (has / was - 1):+.1f} %{told})"


def _tightest(numbers: Sequence[Measured]) -> dict[str, tuple[float, Measured]]:
    """Return by metric the number nearest its limit, with what is left of what the limit allows."""
    found: dict[str, tuple[float, Measured]] = {}
    for one in numbers:
        room = headroom(one)
        if room is not None and (one.metric not in found or room < found[one.metric][0]):
            found[one.metric] = (room, one)
    return found


def _nearer(before: Sequence[Measured], now: Sequence[Measured], share: float) -> Iterator[str]:
    old = _tightest(before)
    for metric, (room, one) in _tightest(now).items():
        if metric in old and old[metric][0] - room > share:
            was = old[metric][1]
            moved = 100 * (old[metric][0] - room)
            yield (
                f"{metric} {was.value:.4g} before, {one.value:.4g} now (needs {one.op} {one.required:g}): "
                f"{moved:.0f} % of what the limit allows"
            )
