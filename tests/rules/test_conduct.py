"""What a seat does with equal values: declared spread, layouts, and what is reported and decides nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import Conduct
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.rules import conduct

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
GOOD = Conduct("a", 3, 0.0, carried=False, layouts={"sliced": 0.0}, raised={}, mates=0.01, mates_rows=(1, 8))
DECLARED = Limit("repeat", "<=", 1e-5, "atomic sums")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({}, "", id="sound"),
        pytest.param({"repeat": 1e-12}, "nondeterministic", id="one_bit_undeclared"),
        pytest.param({"repeat": 1.0, "carried": True}, "stale", id="carried"),
        pytest.param({"repeat": math.nan}, "nondeterministic", id="nan_between_runs"),
        pytest.param({"layouts": {"sliced": 0.0079}}, "", id="layout_within_the_scheme"),
        pytest.param({"layouts": {"sliced": 0.0, "transposed": 0.0081}}, "layout", id="one_layout_wrong"),
        pytest.param({"layouts": {"sliced": math.nan}}, "layout", id="nan_in_a_layout"),
        pytest.param({"raised": {"transposed": "RuntimeError: view"}}, "layout", id="raises"),
        pytest.param({"shapes": {"batch": "(3,) for (1, 3)"}}, "shape", id="shape_of_a_batch"),
        pytest.param({"mates": 1.0}, "", id="batch_mates_are_reported"),
    ],
)
def test_reason(change: dict[str, object], reason: str) -> None:
    refusal = conduct.fault("a", [replace(GOOD, **change)], LIMITS, ())  # type: ignore[arg-type]
    assert (refusal.reason if refusal else "") == reason
    assert conduct.fault("b", [replace(GOOD, **change)], LIMITS, ()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("spread", "holds"), [(1e-5, True), (1.1e-5, False), (math.nan, False)], ids=str)
def test_a_declared_spread_is_held_to(spread: float, *, holds: bool) -> None:
    assert (conduct.fault("a", [replace(GOOD, repeat=spread)], LIMITS, (DECLARED,)) is None) is holds


def test_the_worst_survivor_is_reported() -> None:
    found = [GOOD, replace(GOOD, seat="b", mates=0.5), replace(GOOD, seat="c", mates=0.9)]
    (number,) = conduct.reported(found, ("a", "b"))
    assert (number.metric, number.value, number.op, number.at) == ("seam.batch_mates", 0.5, "reported", "b|1 of 8")
    assert list(conduct.reported([replace(GOOD, mates_rows=(256, 256))], ("a",))) == []
