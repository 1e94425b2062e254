"""Parity over the rows of all cases together: one bad output channel, or a near miss of the reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.rules import pooled
from pytest_frt.rules.conduct import REPORTED

GATE: Final = "parity"
WORDS: Final = {
    "channel": "one output channel is off on all rows alike",
    "alternative": "it computes a near miss of its reference",
}
"""Number, which is the word of its refusal too, to what it says; in the order in which a refusal is named."""


def fault(together: Sequence[PooledMetrics], limits: SeamLimits) -> Refusal | None:
    """Refuse a seat by what only all rows together show; None when that holds.

    Args:
        together: Of one seat, one per output.
        limits: Of its scheme.
    """
    over = [(name, _measured(name, one, limits)) for one in together for name in pooled.breaches(one, limits)]
    if not over:
        return None
    word = min((name for name, _ in over), key=list(WORDS).index)
    said = "; ".join(f"{n.metric} {n.value:.6g} (needs {n.op} {n.required:g}) at {n.at}" for _, n in over)
    seat = together[0].seat
    return Refusal(GATE, word, f"seat {seat}: {WORDS[word]}: {said}", at=seat, measured=tuple(n for _, n in over))


def worst(found: Iterable[tuple[PooledMetrics, SeamLimits]]) -> tuple[Measured, ...]:
    """Return each number where it is nearest its limit, and how many near misses no row told from the reference."""
    pairs = list(found)
    if not pairs:
        return ()
    nearest = (max((_measured(name, *pair) for pair in pairs), key=_closeness) for name in WORDS)
    blind = max((one for one, _ in pairs), key=lambda one: len(pooled.untold(one)))
    count = pooled.numbers(blind)["untold"]
    return (*nearest, Measured("seam.untold", count, REPORTED, count, blind.rows, at=_place(blind, "untold")))


def _place(one: PooledMetrics, name: str) -> str:
    return f"{one.seat}|{pooled.place(one, name)}#{one.output}"


def _measured(name: str, one: PooledMetrics, limits: SeamLimits) -> Measured:
    value, top = pooled.numbers(one)[name], pooled.ceilings(one, limits)[name]
    return Measured(f"seam.{name}", value, "<=", top, one.rows, at=_place(one, name))


def _closeness(number: Measured) -> float:
    return number.value / number.required if number.required > 0 else number.value
