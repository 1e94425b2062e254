"""A model of timing noise in log time, the one of the decision record of FRT-NW-1: see docs/adr/0004."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Units = npt.NDArray[np.float64]
Simulate = Callable[..., Units]


@dataclass(frozen=True)
class Noise:
    """Standard deviations and sizes in log time; ``switch`` and ``spikes`` are chances per sample."""

    white: float
    drift: float  # random walk, per 200 samples
    regime: float = 0.0  # slower of two clock states
    switch: float = 0.0
    spikes: float = 0.0
    order: float = 0.0  # second of a pair is slower
    process: float = 0.0  # offset of a process's ratio


NOISE = {
    "quiet": Noise(0.01, 0.003),
    "typical": Noise(0.02, 0.01, regime=0.12, switch=0.002, spikes=0.01, order=0.01, process=0.005),
    "rough": Noise(0.04, 0.02, regime=0.15, switch=0.005, spikes=0.03, order=0.02, process=0.01),
}


def log_times(rng: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> Units:
    """Return log durations of successive samples along the last axis, before any effect of the arm."""
    walk = rng.normal(0, noise.drift / np.sqrt(200), shape).cumsum(-1)
    start = rng.integers(0, 2, (*shape[:-1], 1))
    slow = ((rng.random(shape) < noise.switch).cumsum(-1) + start) % 2
    spikes = (rng.random(shape) < noise.spikes) * rng.exponential(0.3, shape)
    times: Units = rng.normal(0, noise.white, shape) + walk + slow * np.log1p(noise.regime) + spikes
    times[..., 1::2] += noise.order
    return times


def simulate(
    environment: str,
    speed: float,
    *,
    runs: int,
    seed: int,
    processes: int = 8,
    units: int = 10,
    fixed_order: bool = False,
) -> Units:
    """Return unit ratios ``[runs, processes, units]`` of a candidate ``speed`` times as fast as the base."""
    noise, rng = NOISE[environment], np.random.default_rng(seed)
    times = log_times(rng, noise, (runs, processes, units * 4)).reshape(runs, processes, units, 2, 2)
    base_first = np.zeros((runs, processes, units, 2), bool)
    if not fixed_order:
        base_first[..., 0] = rng.integers(0, 2, base_first.shape[:-1])
        base_first[..., 1] = ~base_first[..., 0]
    first_minus_second = times[..., 0] - times[..., 1]
    log_ratio = np.where(base_first, first_minus_second, -first_minus_second)
    offset = rng.normal(0, noise.process, (runs, processes, 1))
    return np.exp(log_ratio.mean(-1) + offset) * speed


@pytest.fixture(name="simulate", scope="session")
def simulate_fixture() -> Any:
    return simulate
