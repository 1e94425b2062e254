"""The numbers of the two seam oracles and their limits: one table for the gate, the rows and the verifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.rules.exact import meets
from pytest_frt.rules.thresholds import COLLAPSED_ENERGY, OUTLIER_CAP, SLOPE_SIGMAS

REASONS: Final[Mapping[str, str]] = {
    "slope": "gain",
    "reference_ratio": "reference",
    "rel_l2": "scheme",
    "row_rel_l2": "rows",
    "max_abs": "outliers",
    "outliers": "outliers",
}
"""Number to the word of its refusal, in the order in which a refusal is named."""
SEVERITY: Final = ("shape", "nan", "zeros", "gain", "reference", "scheme", "rows", "outliers", "limit")
"""Words of seam refusals, the one that explains most first."""


def residual(metrics: SeamMetrics) -> float:
    """Return the relative L2 error that no gain explains.

    It is sqrt(rel_l2^2 - (slope - 1)^2): the residual of a least-squares fit is orthogonal to what it is fitted on.
    """
    # max keeps its first argument when nothing compares: a NaN stays one.
    return math.sqrt(max(metrics.rel_l2**2 - (metrics.slope - 1) ** 2, 0.0))


def gain(metrics: SeamMetrics) -> float:
    """Return the part of ``|slope - 1|`` that scatter over that many elements cannot explain.

    The standard error of the slope is ``residual / sqrt(elements - 1)``; with few elements a correct quantised seat
    scatters by more than the limit on a gain.
    """
    scatter = residual(metrics) / math.sqrt(metrics.elements - 1) if metrics.elements > 1 else 0.0
    return max(abs(metrics.slope - 1) - SLOPE_SIGMAS.value * scatter, 0.0)


def energy(metrics: SeamMetrics) -> float:
    """Return candidate energy over reference energy: |c|^2 / |f|^2 = rel_l2^2 - 1 + 2 slope."""
    return metrics.rel_l2**2 - 1 + 2 * metrics.slope


def sqnr(metrics: SeamMetrics) -> float:
    """Return signal over error against the reference, in dB; at most what float64 can tell, 319 dB."""
    return -20 * math.log10(max(metrics.candidate_error, 2.0**-53))


def numbers(metrics: SeamMetrics, limits: SeamLimits) -> dict[str, float]:
    """Return what is compared, by name of the gate row; every one has a ceiling in ``ceilings``."""
    allowed = limits.reference_factor * metrics.scheme_error + limits.floor
    error = metrics.candidate_error
    return {
        "slope": gain(metrics),
        "reference_ratio": error / allowed if allowed > 0 else (0.0 if error == allowed == 0 else math.inf),
        "rel_l2": metrics.rel_l2,
        "row_rel_l2": metrics.row_rel_l2,
        "max_abs": metrics.max_abs,
        "outliers": metrics.outliers,
    }


def ceilings(limits: SeamLimits) -> dict[str, float]:
    """Return the ceiling of every number; elements over ``max_abs`` need a budget and still have a cap."""
    return {
        "slope": limits.slope,
        "reference_ratio": 1.0,
        "rel_l2": limits.rel_l2,
        "row_rel_l2": limits.row_rel_l2,
        "max_abs": limits.max_abs * (OUTLIER_CAP.value if limits.outliers > 0 else 1.0),
        "outliers": limits.outliers,
    }


def breaches(metrics: SeamMetrics, limits: SeamLimits) -> tuple[str, ...]:
    """Return the names of the numbers over their ceiling; NaN is over every ceiling."""
    top = ceilings(limits)
    return tuple(name for name, value in numbers(metrics, limits).items() if not meets(value, "<=", top[name]))


def fault(metrics: SeamMetrics, limits: SeamLimits) -> str:
    """Return the word for what is wrong with one output of one seat, empty when nothing is.

    A gain is called so only where the rest of the error is within the scheme: a wrong output has a wrong slope too.
    """
    if metrics.mismatch:
        return "shape"
    if not metrics.finite:
        return "nan"
    over = breaches(metrics, limits)
    if not over:
        return ""
    if energy(metrics) < COLLAPSED_ENERGY.value:
        return "zeros"
    if "slope" in over and meets(residual(metrics), "<=", limits.rel_l2):
        return "gain"
    return next((REASONS[name] for name in over if name != "slope"), "gain")
