"""Numbers of one seat that hold, and the limits that they hold to."""

from __future__ import annotations

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics, PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
METRICS = SeamMetrics(
    seat="a",
    case="real",
    output=0,
    rows=8,
    finite=True,
    candidate_error=0.001,
    scheme_error=0.001,
    slope=1.001,
    rel_l2=0.002,
    row_rel_l2=0.003,
    max_abs=0.01,
    outliers=0.0,
    cosine=1.0,
    elements=512,
)
NEAR = AlternativeMetrics("other", 0.25, 0.01, 32)
POOLED = PooledMetrics("a", 0, 100, 1, (ChannelMetrics(0, 0.004, 0.0006),), (NEAR,))
