"""What the rows of all cases together show of one output, and its limits: for the gate, the rows and the verifier."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics, PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.rules.exact import meets
from pytest_frt.rules.thresholds import ALTERNATIVE_SHARE, SLOPE_SIGMAS


def by_seat(metrics: Iterable[PooledMetrics], seats: Iterable[str]) -> dict[str, list[PooledMetrics]]:
    """Return what there is of each of ``seats``, in their order; of others nothing."""
    found: dict[str, list[PooledMetrics]] = {seat: [] for seat in seats}
    for one in metrics:
        found.get(one.seat, []).append(one)
    return found


def told(one: AlternativeMetrics) -> bool:
    """Report whether the rows tell a near miss from the reference: both lie beyond chance from the limit between."""
    return meets(SLOPE_SIGMAS.value * one.spread, "<=", ALTERNATIVE_SHARE.value)


def excess(one: ChannelMetrics, channels: int) -> float:
    """Return the part of a channel's gain that scatter cannot explain, the largest of so many.

    Of ``n`` normal numbers one exceeds ``sqrt(k^2 + 2 ln n)`` standard errors as rarely as a single one ``k``: by the
    union bound over tails of ``exp(-x^2 / 2)``.
    """
    reach = math.sqrt(SLOPE_SIGMAS.value**2 + 2 * math.log(max(channels, 1)))
    return max(abs(one.gain) - reach * one.spread, 0.0)


def worst_channel(found: PooledMetrics) -> ChannelMetrics:
    """Return the channel whose gain is furthest beyond chance; one without a gain where none was compared."""
    return max(found.worst, key=lambda one: excess(one, found.channels), default=ChannelMetrics(0, 0.0, 0.0))


def nearest(found: PooledMetrics) -> AlternativeMetrics | None:
    """Return the told near miss that the output lies closest to; None where none is told."""
    return max((one for one in found.alternatives if told(one)), key=lambda one: abs(one.share), default=None)


def untold(found: PooledMetrics) -> tuple[str, ...]:
    """Return the names of near misses that the rows do not tell from the reference."""
    return tuple(one.name for one in found.alternatives if not told(one))


def numbers(found: PooledMetrics) -> dict[str, float]:
    """Return what is compared, by name of the gate row; every one has a ceiling in ``ceilings``."""
    near = nearest(found)
    return {
        "channel": excess(worst_channel(found), found.channels),
        "alternative": abs(near.share) if near else 0.0,
        "untold": float(len(untold(found))),
    }


def ceilings(found: PooledMetrics, limits: SeamLimits) -> dict[str, float]:
    """Return the ceiling of every number: a channel's gain is held to that of a whole output.

    Near misses that are not told apart refuse nothing here: they are counted, and a policy may admit fewer.
    """
    return {
        "channel": limits.slope,
        "alternative": ALTERNATIVE_SHARE.value,
        "untold": float(len(found.alternatives)),
    }


def breaches(found: PooledMetrics, limits: SeamLimits) -> tuple[str, ...]:
    """Return the names of the numbers over their ceiling; NaN is over every ceiling."""
    top = ceilings(found, limits)
    return tuple(name for name, value in numbers(found).items() if not meets(value, "<=", top[name]))


def place(found: PooledMetrics, name: str) -> str:
    """Return where a number was read: a channel, or the names of near misses."""
    if name == "channel":
        return f"channel_{worst_channel(found).index}"
    if name == "untold":
        return "+".join(untold(found)) or "none"
    near = nearest(found)
    return near.name if near else "none"
