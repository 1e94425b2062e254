"""A model of timing noise in log time: white noise, drift, two clock states, spikes, order bias, process offsets.

It makes no claim to be any machine. Its three environments bracket what paired timings of real models show, and its
parts are the ones that fool simpler rules: see docs/adr/0004-net-win-rule.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.float64]
WALK_SAMPLES: Final = 200
"""Samples over which the random walk reaches its standard deviation."""
SPIKE: Final = 0.3
"""Mean size of a spike in log time."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations and sizes in log time; ``switch`` and ``spikes`` are chances per sample.

    Attributes:
        white: Independent noise of every sample.
        drift: Random walk, after 200 samples.
        regime: How much slower the slower of two clock states is.
        switch: Chance per sample that the clock state changes.
        spikes: Chance per sample of a one-sided spike.
        order: How much slower the second of a pair is.
        process: Offset of a process's ratio: allocation, layout, build order.
    """

    white: float
    drift: float
    regime: float = 0.0
    switch: float = 0.0
    spikes: float = 0.0
    order: float = 0.0
    process: float = 0.0


NOISE: Final = {
    "quiet": Noise(0.01, 0.003),
    "typical": Noise(0.02, 0.01, regime=0.12, switch=0.002, spikes=0.01, order=0.01, process=0.005),
    "rough": Noise(0.04, 0.02, regime=0.15, switch=0.005, spikes=0.03, order=0.02, process=0.01),
}


def log_times(rng: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> Units:
    """Return log durations of successive samples along the last axis, before any effect of the arm."""
    walk = rng.normal(0, noise.drift / np.sqrt(WALK_SAMPLES), shape).cumsum(-1)
    start = rng.integers(0, 2, (*shape[:-1], 1))
    slow = ((rng.random(shape) < noise.switch).cumsum(-1) + start) % 2
    spikes = (rng.random(shape) < noise.spikes) * rng.exponential(SPIKE, shape)
    times: Units = rng.normal(0, noise.white, shape) + walk + slow * np.log1p(noise.regime) + spikes
    times[..., 1::2] += noise.order
    return times


def simulate(
    environment: str,
    speed: float,
    *,
    runs: int,
    seed: int | Sequence[int],
    processes: int = 8,
    units: int = 10,
    fixed_order: bool = False,
) -> Units:
    """Return unit ratios ``[runs, processes, units]`` of a candidate ``speed`` times as fast as the base.

    Args:
        environment: ``quiet``, ``typical`` or ``rough``.
        speed: True ratio of base time over candidate time.
        runs: Independent runs.
        seed: Of the generator.
        processes: Fresh processes per run.
        units: Blocks of two pairs per process.
        fixed_order: Time the candidate first in every pair, the fault that blocks of both orders cancel.
    """
    noise, rng = NOISE[environment], np.random.default_rng(seed)
    times = log_times(rng, noise, (runs, processes, units * 4)).reshape(runs, processes, units, 2, 2)
    base_first = np.zeros((runs, processes, units, 2), bool)
    if not fixed_order:
        base_first[..., 0] = rng.integers(0, 2, base_first.shape[:-1])
        base_first[..., 1] = ~base_first[..., 0]
    first_minus_second = times[..., 0] - times[..., 1]
    log_ratio = np.where(base_first, first_minus_second, -first_minus_second)
    offset = rng.normal(0, noise.process, (runs, processes, 1))
    ratios: Units = np.exp(log_ratio.mean(-1) + offset) * speed
    return ratios
