"""What a seat's conduct must be: the same bits every time, in any memory; and what of it is only reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_frt.contracts.evidence import Conduct
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.rules.exact import meets

GATE: Final = "parity"
REPEAT: Final = "repeat"
"""Metric of a structure's limit that declares how far two runs on the same values may differ; without one, no bit."""
REPORTED: Final = "reported"
"""Stands where a limit's direction does: the number is stated and decides nothing."""


def fault(seat: str, found: Iterable[Conduct], scheme: SeamLimits, structure: Iterable[Limit]) -> Refusal | None:
    """Refuse a seat that answers equal values differently; None when it does not, or nothing was tried.

    Args:
        seat: Seat id.
        found: Conduct of any seats.
        scheme: Its ``rel_l2`` is what another layout may change: a part may sum in another order there.
        structure: May declare a spread between runs.

    Returns:
        Refusal with reason ``stale``, ``nondeterministic``, ``shape`` or ``layout``.
    """
    one = next((each for each in found if each.seat == seat), None)
    return None if one is None else _repeats(one, structure) or _shapes(one) or _layouts(one, scheme)


def _repeats(one: Conduct, structure: Iterable[Limit]) -> Refusal | None:
    allowed = next((limit.value for limit in structure if limit.metric == REPEAT), 0.0)
    if meets(one.repeat, "<=", allowed):
        return None
    measured = Measured("seam.repeat", one.repeat, "<=", allowed, one.runs, at=one.seat)
    why = "carries something from call to call" if one.carried else "does not repeat itself"
    detail = f"seat {one.seat} {why}: runs on the same rows differ by {one.repeat:.3g}, declared is {allowed:g}"
    reason = "stale" if one.carried else "nondeterministic"
    return Refusal(GATE, reason, detail, at=one.seat, measured=(measured,))


def _shapes(one: Conduct) -> Refusal | None:
    if not one.shapes:
        return None
    detail = f"seat {one.seat} returned a wrong shape or dtype: {'; '.join(one.shapes.values())}"
    return Refusal(GATE, "shape", detail, at=one.seat)


def _layouts(one: Conduct, scheme: SeamLimits) -> Refusal | None:
    over = tuple(
        Measured("seam.layout", value, "<=", scheme.rel_l2, 1, at=f"{one.seat}|{layout}")
        for layout, value in one.layouts.items()
        if not meets(value, "<=", scheme.rel_l2)
    )
    if not over and not one.raised:
        return None
    said = [f"{number.at.partition('|')[2]} differs by {number.value:.3g}" for number in over]
    said += [f"{layout} raises {error}" for layout, error in one.raised.items()]
    detail = (
        f"seat {one.seat} answers equal values in other memory differently (at most {scheme.rel_l2:g}, and its guard"
    )
    return Refusal(GATE, "layout", f"{detail} admits every layout): {'; '.join(said)}", at=one.seat, measured=over)


def reported(found: Sequence[Conduct], seats: Sequence[str]) -> Iterator[Measured]:
    """Yield what is stated of the surviving seats and decides nothing: the worst batch-mate difference."""
    mine = [one for one in found if one.seat in seats and one.mates_rows[0] < one.mates_rows[1]]
    if mine:
        worst = max(mine, key=lambda one: one.mates)
        low, high = worst.mates_rows
        yield Measured("seam.batch_mates", worst.mates, REPORTED, worst.mates, high, at=f"{worst.seat}|{low} of {high}")
