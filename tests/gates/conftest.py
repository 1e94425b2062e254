"""Evidence of two sound seats, to be spoiled by the tests."""

from __future__ import annotations

import pytest

from pytest_frt.contracts.evidence import CandidateEvidence, Check, Conduct, LedgerEntry, SeamMetrics
from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics, PooledMetrics


def sound_metrics(seat: str, case: str) -> SeamMetrics:
    return SeamMetrics(
        seat=seat,
        case=case,
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
        cosine=0.9999,
        elements=8192,
    )


@pytest.fixture
def seam() -> list[SeamMetrics]:
    """Metrics of seats ``a`` and ``b`` on real rows and two cases."""
    return [sound_metrics(seat, case) for seat in ("a", "b") for case in ("real", "edge", "ramp")]


def sound_pooled(seat: str) -> PooledMetrics:
    near = AlternativeMetrics("other", 0.01, 0.02, 32)
    return PooledMetrics(seat, 0, 100, 64, (ChannelMetrics(3, 0.001, 0.0002),), (near,))


@pytest.fixture
def pooled() -> list[PooledMetrics]:
    """Pooled metrics of seats ``a`` and ``b``."""
    return [sound_pooled(seat) for seat in ("a", "b")]


@pytest.fixture
def candidate() -> CandidateEvidence:
    """What a worker leaves that bound seats ``a`` and ``b`` and saw nothing wrong."""
    return CandidateEvidence(
        bound=("a", "b"),
        refused=(),
        kernel={},
        closure=(),
        calibration=None,
        ledger=tuple(LedgerEntry(seat, 5, 2, 0, {}, restored=False) for seat in ("a", "b")),
        mutated=(),
        poison_differing=(),
        aliased=(),
        shapes_wrong=(),
        lifecycle=(Check("detach_exact", ok=True, detail=""),),
        seconds=1.0,
        conduct=tuple(
            Conduct(seat, 3, 0.0, carried=False, layouts={}, raised={}, mates=0.0, mates_rows=(1, 1))
            for seat in ("a", "b")
        ),
    )
