"""Geometry of the page's charts: places in percent of a width that is only known where the page is read.

Heights are pixels, so that text and dots keep their size on a phone; widths are percent, so that nothing is cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pytest_frt.rules.exact import order_interval

PAD_SHARE: Final = 0.05
"""Share of a span that stays free on each side."""
TICKS: Final = 6
"""Ticks of an axis, at most: more would touch each other on a phone."""
WIDE: Final = 4.0
"""Ratios that far apart are drawn on a logarithmic scale: on a linear one the losses would lie on one spot."""
STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
ROW_PX: Final = 20
HEAD_PX: Final = 22
FOOT_PX: Final = 24
JITTER_PX: Final = (0.0, 3.0, -3.0, 5.0, -5.0)
"""Offsets of successive dots of a row, so that equal values stay apart."""
TRACE_PX: Final = 112
LATE_SHARE: Final = 60.0
"""Percent of a width beyond which a label is set on the left of its line."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic scale.

    Attributes:
        low: Value at the start; its decimal logarithm on a logarithmic scale.
        high: Value at the end, likewise.
        ticks: Round values in between.
        log: Whether equal ratios are equally far apart.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], *, log: bool = False) -> Axis:
        """Return a scale that holds every value, with some room around them; ``log`` needs positive ones."""
        found = [math.log10(value) for value in values] if log else list(values)
        low, high = min(found), max(found)
        pad = (high - low or abs(low) or 1.0) * PAD_SHARE
        ticks = _log_ticks(low - pad, high + pad) if log else _ticks(low - pad, high + pad)
        return cls(low - pad, high + pad, ticks, log)

    def at(self, value: float) -> float:
        """Return the place of a value in percent; what lies beyond an end is drawn at it."""
        share = ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)


def _ticks(low: float, high: float) -> tuple[float, ...]:
    power = 10 ** math.floor(math.log10((high - low) / TICKS))
    step = next(size * power for size in STEPS if (high - low) / (size * power) <= TICKS)
    first = math.ceil(low / step)
    return tuple(round(step * index, 10) for index in range(first, math.floor(high / step) + 1))


def _log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Return 1, 2 and 5 of every power of ten where that many fit, else the powers alone."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**power for power in powers for step in steps]
        inside = tuple(tick for tick in found if low <= math.log10(tick) <= high)
        if len(inside) <= TICKS:
            break
    return inside


@dataclass(frozen=True, slots=True)
class Dot:
    """One value: its place in percent across and pixels down, whether it counts as good, and what it says."""

    value: float
    x: float
    y: float
    good: bool
    says: str


@dataclass(frozen=True, slots=True)
class StripRow:
    """The units of one process, and the place of their median."""

    name: str
    y: float
    dots: tuple[Dot, ...]
    middle: float
    median: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis and its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Every unit ratio of one record, a row per process, below the pooled median and its interval.

    Attributes:
        rows: Per process.
        ticks: Of the axis, in percent.
        pooled: Pooled median.
        low: Lower end of its interval.
        high: Upper end of its interval.
        margin: What a unit must exceed.
        log: Whether the scale is logarithmic.
        at: Places of ``pooled``, ``low``, ``high``, ``margin`` and 1 in percent.
        flip: True where the label of the margin stands on the left of its line.
        units: Count of units.
        over: Count of units above the margin.
        height: Pixels.
        says: The plot in words.
    """

    rows: tuple[StripRow, ...]
    ticks: tuple[Tick, ...]
    pooled: float
    low: float
    high: float
    margin: float
    log: bool
    at: dict[str, float]
    flip: bool
    units: int
    over: int
    height: int
    says: str


def strip(
    processes: Sequence[Sequence[float]],
    margin: float,
    confidence: float,
    *,
    said: tuple[float, float, float] | None = None,
) -> Strip | None:
    """Lay out the unit ratios of one record; None when there are none.

    Args:
        processes: Unit ratios per process.
        margin: What a unit must exceed.
        confidence: Of the interval.
        said: Pooled median and interval that a verdict stated; None to take those of all units.
    """
    units = [ratio for process in processes for ratio in process]
    if not units:
        return None
    found = order_interval(units, confidence)
    # Too few units have no interval of that confidence: all of them are then inside it.
    whole = max(found.low, min(units)), min(found.high, max(units))
    pooled, low, high = said or (median(units), *whole)
    drawn = [*units, pooled, low, high, margin, 1.0]
    axis = Axis.over(drawn, log=min(drawn) > 0 and max(drawn) > WIDE * min(drawn))
    rows = tuple(_row(index, process, axis, margin) for index, process in enumerate(processes) if process)
    places = {"pooled": pooled, "low": low, "high": high, "margin": margin, "one": 1.0}
    at = {name: axis.at(value) for name, value in places.items()}
    return Strip(
        rows=rows,
        ticks=tuple(Tick(axis.at(tick), f"{tick:.6g}") for tick in axis.ticks),
        pooled=pooled,
        low=low,
        high=high,
        margin=margin,
        log=axis.log,
        at=at,
        flip=at["margin"] > LATE_SHARE,
        units=len(units),
        over=sum(ratio > margin for ratio in units),
        height=HEAD_PX + ROW_PX * (len(rows) + 1) + FOOT_PX,
        says=_in_words(units, rows, margin, f"{confidence:.0%} interval {low:.4f} to {high:.4f}", pooled),
    )


def _in_words(units: Sequence[float], rows: Sequence[StripRow], margin: float, interval: str, pooled: float) -> str:
    over = sum(ratio > margin for ratio in units)
    return (
        f"{len(units)} unit ratios of {len(rows)} processes, {over} of them above {margin:g}; pooled median "
        f"{pooled:.4f}, {interval}; lowest {min(units):.4f}, highest {max(units):.4f}; "
        f"process medians {', '.join(f'{row.median:.4f}' for row in rows)}."
    )


def _row(index: int, process: Sequence[float], axis: Axis, margin: float) -> StripRow:
    y = HEAD_PX + ROW_PX * (index + 1.5)
    dots = tuple(
        Dot(
            ratio, axis.at(ratio), y + JITTER_PX[unit % len(JITTER_PX)], ratio > margin, f"process {index}: {ratio:.4f}"
        )
        for unit, ratio in enumerate(process)
    )
    middle = median(process)
    return StripRow(f"p{index}", y, dots, axis.at(middle), middle)


@dataclass(frozen=True, slots=True)
class Curve:
    """One control over the units of a record, in the order of collection.

    Attributes:
        title: What it is.
        dots: Per unit; ``good`` inside the guard.
        line: Places of the dots for a line: percent across, pixels down.
        ticks: Of the upright axis, in pixels.
        band: Upper and lower edge of the guard in pixels; None without a guard.
        breaks: Where a process begins, in percent.
        height: Pixels.
        says: The curve in words.
    """

    title: str
    dots: tuple[Dot, ...]
    line: str
    ticks: tuple[Tick, ...]
    band: tuple[float, float] | None
    breaks: tuple[Tick, ...]
    height: int
    says: str


def curve(
    title: str, processes: Sequence[Sequence[float | None]], *, guard: tuple[float, float] | None = None
) -> Curve | None:
    """Lay out a control over time; None when it was not recorded.

    Args:
        title: What it is.
        processes: Values per process; None where a value is not finite.
        guard: What its median must stay within.
    """
    values = [value for process in processes for value in process]
    known = [value for value in values if value is not None]
    if not known:
        return None
    axis = Axis.over([*known, *(guard or ()), 1.0])
    edges = guard or (axis.low, axis.high)

    def down(value: float) -> float:
        return round(TRACE_PX * (1 - axis.at(value) / 100), 2)

    places = ((round(100 * (unit + 0.5) / len(values), 2), unit, value) for unit, value in enumerate(values))
    dots = tuple(
        Dot(value, across, down(value), edges[0] <= value <= edges[1], f"unit {unit}: {value:.4f}")
        for across, unit, value in places
        if value is not None
    )
    inside = f"; its median must stay within {guard[0]:g} to {guard[1]:g}" if guard else ""
    says = f"{title}: median {median(known):.4f}, {min(known):.4f} to {max(known):.4f} over {len(known)} units{inside}."
    return Curve(
        title=title,
        dots=dots,
        line=" ".join(f"{dot.x},{dot.y}" for dot in dots),
        ticks=tuple(Tick(down(tick), f"{tick:.6g}") for tick in axis.ticks),
        band=(down(guard[1]), down(guard[0])) if guard else None,
        breaks=_breaks(processes, len(values)),
        height=TRACE_PX,
        says=says,
    )


def _breaks(processes: Sequence[Sequence[object]], total: int) -> tuple[Tick, ...]:
    before = 0
    out = []
    for index, process in enumerate(processes):
        out.append(Tick(round(100 * before / total, 2), f"p{index}"))
        before += len(process)
    return tuple(out)
