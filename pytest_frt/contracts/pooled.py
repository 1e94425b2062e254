"""Evidence over the rows of all cases of a seat together. Never a verdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlternativeMetrics:
    """How far an output lies on the way from the fake-quantised reference to a near miss of it.

    Attributes:
        name: Of the near miss, as the structure's cases name it.
        share: 0 at the reference, 1 at the near miss; unitless.
        spread: Standard error of ``share`` over the rows.
        rows: Rows that both were compared on.
    """

    name: str
    share: float
    spread: float
    rows: int


@dataclass(frozen=True, slots=True)
class ChannelMetrics:
    """One output channel over all rows: least-squares gain beyond 1 against the fake-quantised reference.

    Attributes:
        index: Channel.
        gain: 0 where it is right; unitless.
        spread: Standard error of ``gain`` over the rows.
    """

    index: int
    gain: float
    spread: float


@dataclass(frozen=True, slots=True)
class PooledMetrics:
    """One output of one seat over the rows of all its cases together: what no single case has rows enough to show.

    Attributes:
        seat: Seat id.
        output: Index of the output tensor.
        rows: Rows pooled.
        channels: Output channels compared.
        worst: Channels that no other beats in both a larger gain and a smaller spread, the largest gain first.
        alternatives: One per near miss that the structure names for this variant.
    """

    seat: str
    output: int
    rows: int
    channels: int
    worst: tuple[ChannelMetrics, ...]
    alternatives: tuple[AlternativeMetrics, ...] = ()
