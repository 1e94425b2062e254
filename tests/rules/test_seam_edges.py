"""Edges of the seam numbers: formulas at hand-made values, ceilings that hold themselves, and the order of words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.rules import seam

LIMITS = SeamLimits(
    reference_factor=2.0, floor=0.25, slope=0.125, rel_l2=0.5, row_rel_l2=0.75, max_abs=1.5, outliers=0.25, because="t"
)
EXACT = SeamMetrics(
    seat="a",
    case="real",
    output=0,
    rows=1,
    finite=True,
    candidate_error=0.0,
    scheme_error=0.0,
    slope=1.0,
    rel_l2=0.0,
    row_rel_l2=0.0,
    max_abs=0.0,
    outliers=0.0,
    cosine=1.0,
    elements=101,
)


@pytest.mark.parametrize(
    ("slope", "rel_l2", "left"), [(1.0, 0.5, 0.5), (1.3, 0.5, 0.4), (0.7, 0.5, 0.4), (1.5, 0.5, 0.0), (2.0, 0.5, 0.0)]
)
def test_residual_is_what_no_gain_explains(slope: float, rel_l2: float, left: float) -> None:
    assert seam.residual(replace(EXACT, slope=slope, rel_l2=rel_l2)) == pytest.approx(left, abs=1e-12)


@pytest.mark.parametrize("field", ["slope", "rel_l2"])
def test_residual_and_gain_keep_a_nan(field: str) -> None:
    broken = replace(EXACT, **{field: math.nan})  # type: ignore[arg-type]
    assert math.isnan(seam.residual(broken))
    assert math.isnan(seam.gain(broken))


@pytest.mark.parametrize(
    ("slope", "rel_l2", "elements", "beyond"),
    [
        pytest.param(1.25, 0.25, 101, 0.25, id="pure_gain"),
        pytest.param(0.75, 0.25, 101, 0.25, id="pure_loss"),
        pytest.param(1.3, 0.5, 101, 0.3 - 5 * 0.4 / 10, id="five_standard_errors_less"),
        pytest.param(1.3, 0.5, 2, 0.0, id="two_elements_explain_it"),
        pytest.param(1.3, 0.5, 1, 0.3, id="one_element_has_no_scatter"),
        pytest.param(1.3, 0.5, 0, 0.3, id="elements_unknown"),
    ],
)
def test_gain_is_what_scatter_does_not_explain(slope: float, rel_l2: float, elements: int, beyond: float) -> None:
    measured = replace(EXACT, slope=slope, rel_l2=rel_l2, elements=elements)
    assert seam.gain(measured) == pytest.approx(beyond, abs=1e-12)


@pytest.mark.parametrize(
    ("slope", "rel_l2", "energy"), [(1.0, 0.0, 1.0), (0.5, 0.5, 0.25), (0.0, 1.0, 0.0), (2.0, 1.0, 4.0)]
)
def test_energy(slope: float, rel_l2: float, energy: float) -> None:
    assert seam.energy(replace(EXACT, slope=slope, rel_l2=rel_l2)) == energy


@pytest.mark.parametrize(
    ("error", "scheme", "floor", "ratio"),
    [
        (1.0, 0.5, 0.25, 0.8),
        (1.0, 0.5, 0.0, 1.0),
        (0.0, 0.0, 0.0, 0.0),
        (1e-9, 0.0, 0.0, math.inf),
        (0.5, 0.0, 0.25, 2.0),
    ],
)
def test_reference_ratio(error: float, scheme: float, floor: float, ratio: float) -> None:
    measured = replace(EXACT, candidate_error=error, scheme_error=scheme)
    assert seam.numbers(measured, replace(LIMITS, floor=floor))["reference_ratio"] == ratio


def test_numbers_and_ceilings_name_the_same() -> None:
    measured = replace(EXACT, rel_l2=0.1, row_rel_l2=0.2, max_abs=0.3, outliers=0.4)
    numbers, ceilings = seam.numbers(measured, LIMITS), seam.ceilings(LIMITS)
    assert list(numbers) == list(ceilings) == list(seam.REASONS)
    assert (numbers["row_rel_l2"], numbers["max_abs"], numbers["outliers"]) == (0.2, 0.3, 0.4)
    assert ceilings == {
        "slope": 0.125,
        "reference_ratio": 1.0,
        "rel_l2": 0.5,
        "row_rel_l2": 0.75,
        "max_abs": 15.0,
        "outliers": 0.25,
    }
    assert seam.ceilings(replace(LIMITS, outliers=0.0))["max_abs"] == 1.5


AT_THE_CEILING = {
    "slope": {"slope": 1.125, "rel_l2": 0.125},
    "reference_ratio": {"candidate_error": 0.25},
    "rel_l2": {"rel_l2": 0.5},
    "row_rel_l2": {"row_rel_l2": 0.75},
    "max_abs": {"max_abs": 15.0},
    "outliers": {"outliers": 0.25},
}


@pytest.mark.parametrize("name", AT_THE_CEILING)
def test_a_ceiling_itself_holds_and_one_step_more_does_not(name: str) -> None:
    change = AT_THE_CEILING[name]
    assert seam.breaches(replace(EXACT, **change), LIMITS) == ()  # type: ignore[arg-type]
    beyond = {field: math.nextafter(value, math.inf) for field, value in change.items()}
    found = replace(EXACT, **beyond)  # type: ignore[arg-type]
    assert seam.breaches(found, LIMITS) == (name,)
    assert seam.fault(found, LIMITS) == seam.REASONS[name]


def test_an_output_with_a_ten_thousandth_of_the_energy_is_no_zero() -> None:
    faint = replace(EXACT, slope=0.01, rel_l2=0.99)
    assert seam.energy(faint) == pytest.approx(1e-4)
    assert seam.fault(replace(faint, slope=0.0099), LIMITS) == "zeros"
    assert seam.fault(replace(faint, slope=0.0101), LIMITS) == "gain"


def test_energy_at_the_limit_is_no_zero() -> None:
    assert seam.fault(replace(EXACT, slope=5e-5, rel_l2=1.0), LIMITS) == "gain"


@pytest.mark.parametrize(("error", "decibels"), [(1.0, 0.0), (0.01, 40.0), (0.0, 20 * 53 * math.log10(2))])
def test_decibels_end_at_the_rounding_of_float64(error: float, decibels: float) -> None:
    assert seam.sqnr(replace(EXACT, candidate_error=error)) == pytest.approx(decibels, rel=1e-12)


def test_a_gain_is_named_only_where_the_rest_is_within_the_scheme() -> None:
    wrong = replace(EXACT, slope=2.0, elements=1 << 20)
    assert seam.fault(replace(wrong, rel_l2=math.hypot(1.0, 0.49)), LIMITS) == "gain"
    assert seam.fault(replace(wrong, rel_l2=math.hypot(1.0, 0.51)), LIMITS) == "scheme"


def test_words_are_ranked_by_what_explains_most() -> None:
    ranked = ["shape", "nan", "zeros", "gain", "reference", "scheme", "rows", "outliers", "limit"]
    assert list(seam.SEVERITY) == ranked
    assert list(dict.fromkeys(seam.REASONS.values())) == ranked[3:-1]
