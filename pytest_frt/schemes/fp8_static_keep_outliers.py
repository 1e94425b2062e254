"""As ``fp8_static``; a seat with a calibration point far over the others stays with the host.

One scale serves a whole tensor: where few large numbers set it, all others share the few codes that are left.
"""

from __future__ import annotations

from pytest_frt.contracts.scheme import Ceiling, Scheme, SeamLimits
from pytest_frt.schemes.fp8_static import FORMAT_MAX, activation, weight

SCHEME = Scheme(
    name="fp8_static_keep_outliers",
    summary="As fp8_static; seats with an activation over 20 times the median of all points stay with the host.",
    weight=weight,
    activation=activation,
    points="all",
    statistic="amax",
    per_call=False,
    format_max=FORMAT_MAX,
    percentile=100.0,
    ceiling=Ceiling(20.0, keeps_host=True, because="docs/adr/0010-schemes-and-seats.md#the-ceiling"),
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
