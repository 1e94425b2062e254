"""e4m3 weights with one scale per slot, e4m3 activations with one calibrated scale per point."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from pytest_frt.contracts.scheme import Ceiling, Scheme, SeamLimits
from pytest_frt.errors import SpecError
from pytest_frt.schemes._formats import E4M3_MAX, e4m3

FORMAT_MAX: Final = E4M3_MAX


def weight(w: Tensor, out_axis: int) -> Tensor:  # noqa: ARG001 (one scale serves the slot)
    """Round to e4m3 with scale ``amax / 448``; a weight of zeros has scale 1."""
    scale = w.float().abs().amax() / FORMAT_MAX
    return e4m3(w, torch.where(scale == 0, torch.ones_like(scale), scale))


def activation(x: Tensor, scale: float | None) -> Tensor:
    """Round to e4m3 with the calibrated scale; larger magnitudes become ``448 * scale``, NaN stays NaN.

    Raises:
        SpecError: the point has no scale.
    """
    if scale is None:
        raise SpecError("fp8_static needs a calibrated scale at every point", hint="calibrate the seat first")
    return e4m3(x, torch.tensor(scale, dtype=torch.float32))


SCHEME = Scheme(
    name="fp8_static",
    summary="e4m3 weights and activations, static scales per tensor, float32 sums.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="amax",
    per_call=False,
    format_max=FORMAT_MAX,
    percentile=100.0,
    ceiling=Ceiling(20.0, keeps_host=False, because="docs/adr/0010-schemes-and-seats.md#the-ceiling"),
    limits=SeamLimits(
        reference_factor=2.0,
        floor=0.006,
        slope=0.002,
        rel_l2=0.006,
        row_rel_l2=0.02,
        max_abs=0.1,
        outliers=0.0,
        because="flipped codes: docs/adr/0003-seam-limits.md#flipped-codes",
    ),
)
