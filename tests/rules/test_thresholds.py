"""Thresholds are policy: the committed ones stand here again, so that none changes by the way."""

from __future__ import annotations

import pytest

from pytest_frt.rules import thresholds
from pytest_frt.rules.thresholds import Threshold

COMMITTED = {
    "NET_WIN_MARGIN": 1.02,
    "NET_WIN_ALPHA": 0.005,
    "PROCESS_MARGIN": 1.01,
    "FUTILE_MEDIAN": 1.0,
    "INTERVAL_CONFIDENCE": 0.99,
    "GUARD_LOW": 0.99,
    "GUARD_HIGH": 1.01,
    "GUARD_LEVEL": 0.01,
    "CLOCK_SHARE": 0.05,
    "CLOCK_ALLOWANCE_S": 0.0005,
    "CLOCK_OUTLIERS": 0.1,
    "EMPTY_WORK_S": 2e-05,
    "LEAST_BITS": 4.0,
    "PEAK_SHARE": 1.25,
    "WITNESS_SHARE": 0.02,
    "WITNESS_PROCESSES": 3,
    "STEAL_SHARE": 0.05,
    "PRESSURE_SHARE": 0.6,
    "HELD_OUT_SAMPLES": 12,
    "COLLAPSED_ENERGY": 0.0001,
    "SLOPE_SIGMAS": 5.0,
    "ALTERNATIVE_SHARE": 0.5,
    "SCALE_SHARE": 0.001,
    "CALIBRATION_SAMPLES": 4,
    "OUTLIER_CAP": 10.0,
}
STATED = {name: one for name, one in vars(thresholds).items() if isinstance(one, Threshold)}


@pytest.mark.parametrize("name", sorted(COMMITTED.keys() | STATED.keys()))
def test_threshold_is_the_committed_one(name: str) -> None:
    assert STATED[name].value == COMMITTED[name], "argue the change in docs/adr, then change it here"


@pytest.mark.parametrize("name", sorted(STATED))
def test_threshold_says_why(name: str) -> None:
    assert len(STATED[name].because.split()) >= 3
