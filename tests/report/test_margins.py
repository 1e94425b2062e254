"""The share of a limit that is left, on one scale for agreement, errors, counts and ratios."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.verdict import Measured, NotRun, Pass
from pytest_frt.report.margins import headroom, measured, named, tightest


@pytest.mark.parametrize(
    ("value", "op", "limit", "left"),
    [
        (1.0, ">=", 0.95, 1.0),
        (0.95, ">=", 0.95, 0.0),
        (0.90, ">=", 0.95, -1.0),
        (0.0, "<=", 0.002, 1.0),
        (0.001, "<=", 0.002, 0.5),
        (0.004, "<=", 0.002, -1.0),
        (2.04, ">", 1.02, 1.0),
        (0.51, ">", 1.02, -0.5),
        (0.0, "<=", 0.0, None),
        (3.0, "<=", 0.0, -3.0),
        (48.0, "==", 48.0, None),
        (47.0, "==", 48.0, -1.0),
    ],
    ids=[
        "perfect_agreement", "agreement_at_limit", "agreement_below", "no_error", "half_the_error", "twice_the_error",
        "ratio_doubled", "ratio_halved", "no_fallback", "three_fallbacks", "equal", "one_call_short",
    ],
)  # fmt: skip
def test_headroom(value: float, op: str, limit: float, left: float | None) -> None:
    assert headroom(Measured("m", value, op, limit, 1)) == (pytest.approx(left) if left is not None else None)


def test_tightest_is_the_furthest_beyond() -> None:
    near, far = Measured("near", 0.9, ">=", 0.95, 1), Measured("far", 0.1, "<=", 0.01, 1)
    assert tightest([near, far, Measured("count", 0, "<=", 0, 1)]) is far
    assert tightest([Measured("count", 0, "<=", 0, 1)]) is None


def test_numbers_of_a_gate_that_was_not_run_are_none() -> None:
    assert measured(NotRun("parity", "seats")) == ()
    assert named(Pass("ledger", (Measured("served", 4, ">=", 4, 1),)), "served") is not None
    assert named(None, "served") is None
