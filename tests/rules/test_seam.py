"""Seam numbers: each ceiling bites alone, words name the fault, and NaN is over every ceiling."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.rules import seam

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.01, "test")
GOOD = SeamMetrics(
    seat="a",
    case="real",
    output=0,
    rows=8,
    finite=True,
    candidate_error=0.005,
    scheme_error=0.005,
    slope=1.0,
    rel_l2=0.003,
    row_rel_l2=0.01,
    max_abs=0.02,
    outliers=0.0,
    cosine=1.0,
    elements=8192,
)


def test_sound_metrics_have_no_fault() -> None:
    assert seam.fault(GOOD, LIMITS) == ""


FAULTS = {
    "wrong_shape": ({"mismatch": "(2,) for reference (3,)", "finite": False}, "shape"),
    "nan": ({"finite": False}, "nan"),
    "zeros": ({"slope": 0.0, "rel_l2": 1.0, "candidate_error": 1.0}, "zeros"),
    "gain": ({"slope": 1.005, "rel_l2": 0.0051}, "gain"),
    "half_scale": ({"slope": 0.5, "rel_l2": 0.5, "candidate_error": 0.5}, "gain"),
    "sign": ({"slope": -1.0, "rel_l2": 2.0, "candidate_error": 2.0}, "gain"),
    "far_from_the_reference": ({"candidate_error": 0.02}, "reference"),
    "far_from_the_scheme": ({"rel_l2": 0.009}, "scheme"),
    "one_row": ({"row_rel_l2": 0.03}, "rows"),
    "one_element_over_the_cap": ({"max_abs": 0.6}, "outliers"),
    "too_many_outliers": ({"outliers": 0.02}, "outliers"),
    "wrong_output_with_a_wrong_slope": ({"slope": 0.1, "rel_l2": 1.4, "candidate_error": 1.4}, "reference"),
}


@pytest.mark.parametrize(("change", "word"), FAULTS.values(), ids=FAULTS)
def test_fault_has_its_word(change: dict[str, float], word: str) -> None:
    assert seam.fault(replace(GOOD, **change), LIMITS) == word  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "field", ["candidate_error", "scheme_error", "slope", "rel_l2", "row_rel_l2", "max_abs", "outliers"]
)
def test_nan_in_any_number_is_a_fault(field: str) -> None:
    assert seam.fault(replace(GOOD, **{field: math.nan}), LIMITS)


@pytest.mark.parametrize(("error", "decibels"), [(1.0, 0.0), (0.1, 20.0), (1e-3, 60.0), (0.0, 319.1)])
def test_signal_over_noise(error: float, decibels: float) -> None:
    assert seam.sqnr(replace(GOOD, candidate_error=error)) == pytest.approx(decibels, abs=0.05)


def test_every_word_has_a_rank() -> None:
    assert {word for _, word in FAULTS.values()} | {"limit"} == set(seam.SEVERITY)


@pytest.mark.parametrize(("elements", "word"), [(64, ""), (1 << 16, "gain"), (0, "gain")])
def test_scatter_over_few_elements_is_no_gain(elements: int, word: str) -> None:
    scattered = replace(GOOD, slope=1.003, rel_l2=0.0075, elements=elements)
    assert seam.fault(scattered, LIMITS) == word


def test_a_one_percent_gain_is_seen_over_few_elements_too() -> None:
    assert seam.fault(replace(GOOD, slope=1.01, rel_l2=0.0102, elements=64), LIMITS) == "gain"


def test_without_a_budget_no_element_may_exceed_max_abs() -> None:
    strict = replace(LIMITS, outliers=0.0)
    assert seam.fault(replace(GOOD, max_abs=0.06), LIMITS) == ""
    assert seam.fault(replace(GOOD, max_abs=0.06), strict) == "outliers"


def test_an_exact_seat_under_a_limit_of_zero_holds() -> None:
    exact = SeamLimits(2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "test")
    zero = replace(GOOD, candidate_error=0.0, scheme_error=0.0, rel_l2=0.0, row_rel_l2=0.0, max_abs=0.0)
    assert seam.fault(zero, exact) == ""
    assert seam.fault(replace(zero, candidate_error=1e-12), exact) == "reference"
