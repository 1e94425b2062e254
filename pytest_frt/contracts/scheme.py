"""Schemes: which precision goes to weights and activations, and what error that alone may cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class SeamLimits:
    """Limits of the two parity oracles at the bare seam. Each is derived from the scheme's quantisation step.

    Attributes:
        reference_factor: Oracle 1: candidate error <= factor x error of the fake-quantised reference + ``floor``.
        floor: Additive relative-L2 floor of oracle 1 (accumulation order, output rounding).
        slope: Oracle 2: regression slope of candidate on fake-quantised reference within 1 +- slope (0.002).
        rel_l2: Oracle 2: relative L2 against the fake-quantised reference.
        row_rel_l2: Oracle 2: worst row's relative L2.
        max_abs: Oracle 2: max abs error over the output's RMS, beyond the outlier budget.
        outliers: Share of elements allowed over ``max_abs`` (never unbounded: each stays under 10 x max_abs).
        because: Where the numbers come from (ADR or derivation).
    """

    reference_factor: float
    floor: float
    slope: float
    rel_l2: float
    row_rel_l2: float
    max_abs: float
    outliers: float
    because: str


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How far the largest magnitude of a calibration point may lie over that of the others before it is said.

    Attributes:
        factor: Multiple of the median over the points of all seats of a structure, dead ones left out.
        keeps_host: True when a seat with a point over it stays with the host; False when that is stated alone.
        because: Why this factor.
    """

    factor: float
    keeps_host: bool
    because: str


@dataclass(frozen=True, slots=True)
class Scheme:
    """One precision profile.

    Attributes:
        name: Scheme name.
        summary: One sentence.
        weight: Fake-quantises a matmul weight: ``(w, out_axis) -> w'`` (same shape, computed in ``w``'s dtype).
        activation: Fake-quantises the tensor at a point: ``(x, scale or None) -> x'``.
        points: ``all`` when activations are quantised at every point of the structure, ``none`` otherwise.
        statistic: ``amax`` when static scales are calibrated, ``none`` otherwise.
        format_max: Largest value of the activation format (448 for e4m3); 0 when no static scale.
        percentile: Percentile across calibration samples.
        limits: Seam parity limits.
        per_call: False when a row of an activation is quantised by itself, whatever other rows a call holds.
        min_scale: Smallest static scale: a point that was always zero gets it, since a scale of 0 divides by zero.
        products: How ``x w`` may leave a matmul rounded: ``(x w, w[K, N]) -> x w`` in float64. Empty where the scheme's
            matmuls leave what they sum.
        ceiling: Of the statistic; None where there is none.
        leaves: The one of ``products`` that the fake-quantised reference does itself; None where it rounds no product.
    """

    name: str
    summary: str
    weight: Callable[[Tensor, int], Tensor]
    activation: Callable[[Tensor, float | None], Tensor]
    points: str
    statistic: str
    format_max: float
    percentile: float
    limits: SeamLimits
    per_call: bool = True
    min_scale: float = 1e-8
    products: tuple[Callable[[Tensor, Tensor], Tensor], ...] = ()
    ceiling: Ceiling | None = None
    leaves: Callable[[Tensor, Tensor], Tensor] | None = None
