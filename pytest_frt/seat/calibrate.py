"""Static activation scales: the largest magnitude at each point, per sample, and a percentile across samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.errors import CalibrationRefused
from pytest_frt.seat.artefact import load_artefact, save_artefact
from pytest_frt.seat.hooks import watching

__all__ = ["Over", "Survey", "calibrate", "load_artefact", "save_artefact", "survey"]

NO_STATISTIC = "none"
AMAX = "amax"
PERCENT = 100


@dataclass(frozen=True, slots=True)
class Over:
    """A point over the scheme's ceiling.

    Attributes:
        seat: Seat id.
        point: Point name.
        amax: Its largest magnitude, at the scheme's percentile across samples.
        median: Of ``amax`` over the points of all seats that give scales, dead points left out.
        points: Count of those points.
        factor: The ceiling: the multiple of the median that is allowed.
    """

    seat: str
    point: str
    amax: float
    median: float
    points: int
    factor: float

    @property
    def times(self) -> float:
        """``amax`` over the median."""
        return self.amax / self.median

    def measured(self) -> Measured:
        """Return the number of a refusal."""
        return Measured(f"ceiling.{self.point}", self.times, "<=", self.factor, self.points, self.seat)

    def __str__(self) -> str:
        """Name point and numbers."""
        return (
            f"point {self.point} reaches {self.amax:.6g}, {self.times:.4g} times the median {self.median:.6g} "
            f"of {self.points} points (ceiling {self.factor:g})"
        )


@dataclass(frozen=True, slots=True)
class Survey:
    """What a calibration saw and what follows from it.

    Attributes:
        scales: Seat id to its scales; seats that were refused are missing.
        refused: Seat id to the reason it has no scales.
        dead: ``<seat>|<point>`` where every value was zero: the scale is the format's smallest, not a measurement.
        amax: ``<seat>|<point>`` to the largest magnitude per sample, in the order of the samples that reached it.
        samples: Count of samples run.
        method: How the scales follow from ``amax``.
        over: Points over the scheme's ceiling, the furthest first. Where the scheme keeps such seats on the host they
            are among the refused.
    """

    scales: dict[str, Scales]
    refused: dict[str, str]
    dead: tuple[str, ...]
    amax: dict[str, tuple[float, ...]]
    samples: int
    method: str
    over: tuple[Over, ...] = ()

    def refusals(self) -> tuple[Refusal, ...]:
        """Return what each refused seat is refused for: ``ceiling`` with its numbers, or ``calibration``."""
        return tuple(self._refusal(at, why) for at, why in self.refused.items())

    def _refusal(self, at: str, why: str) -> Refusal:
        over = tuple(one.measured() for one in self.over if one.seat == at)
        return Refusal("calibrate", "ceiling" if over else "calibration", why, at=at, measured=over)

    def notes(self) -> tuple[str, ...]:
        """Return what to know of the scales: points over the ceiling, and dead ones."""
        high = (f"{one.seat}: {one}" for one in self.over)
        return (*high, *(f"{place} was zero in all {self.samples} samples" for place in self.dead))


@dataclass
class _Point:
    """The running maximum of one point and its history.

    Attributes:
        current: Largest magnitude in the running sample, None before the first call.
        by_sample: Sample index to its largest magnitude.
    """

    current: float | None = None
    by_sample: dict[int, float] = field(default_factory=dict)

    def see(self, tensors: tuple[Tensor, ...], _keyword: bool) -> None:  # noqa: FBT001 (the signature of a watcher)
        """Take in the first tensor of a call."""
        if not tensors:
            return
        x = tensors[0].detach()
        peak = float(x.abs().amax().to(torch.float32)) if x.numel() else 0.0
        # max() drops a NaN that comes second, so a NaN is kept by hand.
        self.current = peak if self.current is None or math.isnan(peak) else max(self.current, peak)

    def close(self, sample: int) -> None:
        """End a sample."""
        if self.current is not None:
            self.by_sample[sample] = self.current
        self.current = None


def _fault(name: str, point: _Point, samples: int) -> str:
    """Say why a point gives no scale; empty when it does."""
    seen = sorted(point.by_sample)
    if not seen:
        return f"point {name} was never seen in {samples} samples"
    if seen[0] > 0:
        return f"point {name} was first seen in sample {seen[0] + 1} of {samples}"
    if unseen := [index for index in range(samples) if index not in point.by_sample]:
        return f"point {name} was not seen in sample {unseen[0] + 1} of {samples}"
    bad = [index for index, peak in point.by_sample.items() if not math.isfinite(peak)]
    return f"point {name} held NaN or Inf in sample {bad[0] + 1} of {samples}" if bad else ""


def _peak(point: _Point, scheme: Scheme) -> float:
    peaks = np.asarray(list(point.by_sample.values()), dtype=np.float64)
    return float(np.percentile(peaks, scheme.percentile, method="linear"))


def _scale(peak: float, scheme: Scheme) -> float:
    return float(np.float32(max(peak / scheme.format_max, scheme.min_scale)))


def _over(peaks: Mapping[str, Mapping[str, float]], scheme: Scheme) -> tuple[Over, ...]:
    """Return the points over the scheme's ceiling, the furthest first; ``peaks`` are those that give a scale."""
    flat = [(seat, name, peak) for seat, own in peaks.items() for name, peak in own.items()]
    live = [peak for _, _, peak in flat if peak > 0]
    if scheme.ceiling is None or not live:
        return ()
    median, factor = float(np.median(live)), scheme.ceiling.factor
    found = [Over(*one, median, len(live), factor) for one in flat if one[-1] > factor * median]
    return tuple(sorted(found, key=lambda one: -one.amax))


def _run(model: nn.Module, passes: Iterable[Callable[[], object]], points: Sequence[tuple[str, _Point]]) -> int:
    """Fill ``points``, given with the module path each is read at, and return how many samples ran."""
    count = 0
    with torch.no_grad(), watching(model, [(path, point.see) for path, point in points]):
        for run in passes:
            run()
            for _, point in points:
                point.close(count)
            count += 1
    return count


def survey(
    model: nn.Module, passes: Iterable[Callable[[], object]], seats: Sequence[SeatFacts], scheme: Scheme
) -> Survey:
    """Run the calibration samples and derive the scales of every seat.

    A scale is ``max(p / format_max, min_scale)`` rounded to float32, with ``p`` the scheme's percentile (linear)
    over samples of the largest magnitude within each. A seat with a point that some sample did not reach, or that held
    NaN or Inf, is refused; the others go on. Where the scheme has a ceiling, the points
    over it are named, and their seats refused if the scheme keeps them on the host: the median is that of ``seats``.

    Args:
        model: The unattached host.
        passes: One zero-argument host run per sample.
        seats: Seats to calibrate.
        scheme: Gives statistic, format and percentile.

    Raises:
        CalibrationRefused: the scheme needs scales and ``passes`` is empty, or its statistic or percentile is unknown.
    """
    if scheme.statistic == NO_STATISTIC:
        return Survey({seat.id: Scales() for seat in seats}, {}, (), {}, 0, NO_STATISTIC)
    if scheme.statistic != AMAX:
        raise CalibrationRefused(f"scheme {scheme.name} wants statistic {scheme.statistic!r}; known are amax and none")
    if not 0 <= scheme.percentile <= PERCENT:  # NaN is none
        raise CalibrationRefused(f"scheme {scheme.name} wants percentile {scheme.percentile:g}, needs 0 to {PERCENT}")
    points = {seat.id: {name: _Point() for name in seat.points} for seat in seats}
    placed = [(at.module, points[seat.id][name]) for seat in seats for name, at in seat.points.items()]
    count = _run(model, passes, placed)
    if not count:
        raise CalibrationRefused(f"scheme {scheme.name} needs calibration samples and got none")
    return _derive(points, scheme, count)


def _derive(points: Mapping[str, Mapping[str, _Point]], scheme: Scheme, count: int) -> Survey:
    faults = {
        seat: "; ".join(fault for name, point in own.items() if (fault := _fault(name, point, count)))
        for seat, own in points.items()
    }
    peaks = {
        seat: {name: _peak(point, scheme) for name, point in own.items()}
        for seat, own in points.items()
        if not faults[seat]
    }
    over = _over(peaks, scheme)
    if scheme.ceiling is not None and scheme.ceiling.keeps_host:
        for one in reversed(over):
            faults[one.seat] = f"{one}: {scheme.name} leaves the seat to the host"
    scales = {
        seat: Scales({name: _scale(peak, scheme) for name, peak in own.items()})
        for seat, own in peaks.items()
        if not faults[seat]
    }
    flat = {f"{seat}|{name}": point for seat, own in points.items() for name, point in own.items()}
    amax = {place: tuple(point.by_sample.values()) for place, point in flat.items()}
    dead = tuple(place for place, peaks in amax.items() if peaks and max(peaks) == 0)
    method = f"max |x| within a sample, p{scheme.percentile:g} (linear) across samples, over {scheme.format_max:g}"
    refused = {seat: fault for seat, fault in faults.items() if fault}
    return Survey(scales, refused, dead, amax, count, method, over)


def calibrate(
    model: nn.Module, passes: Iterable[Callable[[], object]], seats: Sequence[SeatFacts], scheme: Scheme
) -> dict[str, Scales]:
    """Return seat id to scales; refused seats are missing, :func:`survey` says why.

    Raises:
        CalibrationRefused: as :func:`survey`, or no seat at all could be calibrated.
    """
    found = survey(model, passes, seats, scheme)
    if seats and not found.scales:
        first, reason = next(iter(found.refused.items()))
        raise CalibrationRefused(f"none of {len(seats)} seats could be calibrated; {first}: {reason}")
    return found.scales
