"""Frozen parts of the page, each made from the JSON values of a report. Nothing is judged here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_frt.contracts.verdict import Measured, NotRun, Refusal, Verdict
from pytest_frt.report.margins import headroom, measured
from pytest_frt.report.told import word
from pytest_frt.run.shown import SeatShown
from pytest_frt.spec import codec

Json = Mapping[str, Any]
PASSED: Final = "PASSED"
HOSTED: Final = "host."
SCALE_TOP: Final = 1.25
"""Share of a limit at the right end of a strip: what is beyond stands there, with an arrow."""


@dataclass(frozen=True, slots=True)
class Number:
    """One number against its limit.

    Attributes:
        metric: Name.
        value: As text; a word where it is not finite.
        limit: Operator and limit, as text.
        share: Used share of what the limit allows: 1 at the limit; None where the limit leaves no room and is met.
        at: Place, or empty.
        n: Samples.
    """

    metric: str
    value: str
    limit: str
    share: float | None
    at: str
    n: int

    @classmethod
    def of(cls, one: Measured) -> Number:
        """Return a verdict's number."""
        left = headroom(one)
        share = None if left is None else 1 - left
        return cls(one.metric, f"{one.value:.6g}", f"{one.op} {one.required:g}", share, one.at, one.n)

    @property
    def place(self) -> float:
        """Where it stands on a strip, in percent."""
        return round(100 * min(max(self.share or 0.0, 0.0), SCALE_TOP) / SCALE_TOP, 2)

    @property
    def used(self) -> str:
        """The share as text."""
        if self.share is None:
            return "met"
        return f"{self.share:.1%}" if self.share < SCALE_TOP else f"{self.share:.3g} x"

    @property
    def beyond(self) -> bool:
        """Whether the limit is broken."""
        return self.share is not None and self.share > 1


@dataclass(frozen=True, slots=True)
class SeatStrip:
    """One seat with its numbers, the nearest to its limit first.

    Attributes:
        seat: Seat id.
        numbers: Worst first.
        refused: Reason word and sentence; empty for a seat that survived.
    """

    seat: str
    numbers: tuple[Number, ...]
    refused: str = ""

    @property
    def worst(self) -> Number:
        """The number nearest to its limit, or furthest beyond it."""
        return self.numbers[0]

    @property
    def rank(self) -> tuple[float, str]:
        """Worst first."""
        return -(self.worst.share or 0.0), self.seat


def _ranked(numbers: Iterable[Number]) -> tuple[Number, ...]:
    return tuple(sorted(numbers, key=lambda one: -(one.share or 0.0)))


def seat_strips(record: Json, refused: Iterable[Refusal]) -> tuple[SeatStrip, ...]:
    """Return every seat that has numbers, worst first: those that were judged last and those that parity took out."""
    found: dict[str, SeatStrip] = {}
    for value in record["seats"]:
        shown = codec.from_json(SeatShown, value)
        numbers = [_seat_number(shown.seat, one) for one in value["numbers"]]
        if numbers:
            found[shown.seat] = SeatStrip(shown.seat, _ranked(numbers))
    for one in refused:
        if one.at and one.measured:
            numbers = list({m.metric: m for m in sorted(map(Number.of, one.measured), key=_share)}.values())
            found[one.at] = SeatStrip(one.at, _ranked(numbers), f"{one.reason}: {one.detail}")
    return tuple(sorted(found.values(), key=lambda strip: strip.rank))


def host_strip(numbers: Iterable[Number]) -> SeatStrip | None:
    """Return the numbers of the host's own outputs as one strip, None without any that has a share."""
    found = _ranked(one for one in numbers if one.metric.startswith(HOSTED) and one.share is not None)
    return SeatStrip("held-out samples", found) if found else None


def _share(number: Number) -> float:
    return number.share or 0.0


def _seat_number(seat: str, one: Json) -> Number:
    if one["value"] is None:
        return Number(one["metric"], "not finite", f"<= {one['limit']:g}", SCALE_TOP * 2, one["at"], one["n"])
    return Number.of(Measured(one["metric"], one["value"], "<=", one["limit"], one["n"], at=f"{seat}|{one['at']}"))


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate of one record.

    Attributes:
        name: Gate name.
        word: ``PASSED`` or the outcome word of its verdict.
        why: Sentence for people; empty where the gate holds.
        numbers: What it compared.
        seconds: Wall time its own evidence took.
        because: What left it not run; empty when it was run.
        refused: Seats it took out.
    """

    name: str
    word: str
    why: str
    numbers: tuple[Number, ...]
    seconds: float
    because: str
    refused: tuple[Refusal, ...]

    @classmethod
    def of(cls, name: str, result: Json) -> Gate:
        """Return one gate of a report."""
        verdict: Verdict = codec.from_json(Verdict, result["verdict"])  # type: ignore[arg-type]
        because = verdict.because if isinstance(verdict, NotRun) else ""
        band = getattr(verdict, "band", "pass")
        said = getattr(verdict, "detail", "") or ("" if band == "pass" else f"band {band}")
        return cls(
            name=name,
            word=word(verdict) or PASSED,
            why=said,
            numbers=tuple(map(Number.of, measured(verdict))),
            seconds=float(result.get("seconds", 0.0)),
            because=because,
            refused=tuple(codec.from_json(Refusal, one) for one in result.get("refused", ())),
        )

    def number(self, metric: str) -> Number | None:
        """Return one of its numbers."""
        return next((one for one in self.numbers if one.metric == metric), None)


@dataclass(frozen=True, slots=True)
class Group:
    """Things that share a reason: ``many`` of them, named by ``names``."""

    reason: str
    names: tuple[str, ...]

    @property
    def many(self) -> int:
        """How many."""
        return len(self.names)


def grouped(pairs: Iterable[tuple[str, str]]) -> tuple[Group, ...]:
    """Group ``(reason, name)`` by reason, the largest group first."""
    found: dict[str, list[str]] = {}
    for reason, name in pairs:
        found.setdefault(reason, []).append(name)
    groups = (Group(reason, tuple(names)) for reason, names in found.items())
    return tuple(sorted(groups, key=lambda group: -group.many))
