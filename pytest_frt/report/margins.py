"""How near a number is to its limit, on one scale for all numbers: what is left of what the limit allows."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_frt.contracts.verdict import Measured, Verdict


def measured(verdict: Verdict | None) -> tuple[Measured, ...]:
    """Return the numbers of a verdict; none for a gate that was not run."""
    found: tuple[Measured, ...] = getattr(verdict, "measured", ())
    return found


def named(verdict: Verdict | None, metric: str) -> Measured | None:
    """Return one number of a verdict."""
    return next((one for one in measured(verdict) if one.metric == metric), None)


def headroom(one: Measured) -> float | None:
    """Return the unused share of what a limit allows: 1 is perfect, 0 at the limit, negative beyond it.

    For ``<=`` perfect is 0; for ``>=`` it is 1 where the limit lies below 1 (agreement), else the limit's double. None
    where the limit leaves no room (a count that must be 0, or equality) and is met: such a number has no margin.
    """
    over = one.value - one.required
    if one.op in {"<", "<="}:
        room, left = one.required, -over
    elif one.op in {">", ">="}:
        room, left = (1 - one.required if one.required < 1 else one.required), over
    else:
        room, left = 0.0, -abs(over)
    if room > 0:
        return left / room
    return None if left >= 0 else left


def tightest(numbers: Iterable[Measured]) -> Measured | None:
    """Return the number nearest to its limit, or furthest beyond it; None when none has a margin."""
    ranked = [(room, one) for one in numbers if (room := headroom(one)) is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None
