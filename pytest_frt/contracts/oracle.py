"""What the oracles leave: ``oracle.json``. Never a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits


@dataclass(frozen=True, slots=True)
class OracleEvidence:
    """``oracle.json``.

    Attributes:
        seam: Over all seats, cases and outputs.
        limits: Unit id to the limits its scheme declares.
        scale_drift: Seat id to the largest relative difference between the scales the candidate was bound with and
            those that calibrating without impl code gives; seats of schemes without static scales are absent.
        pooled: Over all seats and outputs.
    """

    seam: tuple[SeamMetrics, ...]
    limits: dict[str, SeamLimits]
    scale_drift: dict[str, float] = field(default_factory=dict)
    pooled: tuple[PooledMetrics, ...] = ()
