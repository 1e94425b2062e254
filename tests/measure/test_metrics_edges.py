"""Edges of the metrics: every field at hand-made values, over several blocks, and where there is nothing to compare."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.evidence import HostMetrics, SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.errors import EvidenceError
from pytest_frt.measure import blocks
from pytest_frt.measure.metrics import host_metrics, incomparable, seam_metrics

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.5, 0.0, "test")


def rows(*values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def seam(candidate: Tensor, reference: Tensor, fake: Tensor, limits: SeamLimits = LIMITS) -> SeamMetrics:
    return seam_metrics(candidate, reference, fake, seat="s", case="edge", output=3, limits=limits)


@pytest.mark.parametrize("block", [1, 4, 1 << 20], ids=["a_row", "two_rows", "all_rows"])
def test_every_number_of_a_seam(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", block)
    fake = rows((3.0, 4.0), (0.0, 12.0), (5.0, 12.0), (8.0, 15.0))
    reference = fake + rows((0.0, 3.0), (0.0, 0.0), (4.0, 0.0), (0.0, 0.0))
    candidate = fake + rows((0.0, 0.0), (6.0, 0.0), (0.0, 0.0), (0.0, 8.0))
    found = seam(candidate, reference, fake)
    ff, rr = 25 + 144 + 169 + 289, 9 + 49 + 144 + 81 + 144 + 289
    cc, cf, cr = 25 + 36 + 144 + 169 + 64 + 529, ff + 8 * 15, 37 + 144 + 189 + 64 + 345
    assert found == SeamMetrics(
        seat="s",
        case="edge",
        output=3,
        rows=4,
        finite=True,
        candidate_error=pytest.approx(math.sqrt((9 + 36 + 16 + 64) / rr)),
        scheme_error=pytest.approx(5 / math.sqrt(rr)),
        slope=pytest.approx(cf / ff),
        rel_l2=pytest.approx(10 / math.sqrt(ff)),
        row_rel_l2=pytest.approx(0.5),
        max_abs=pytest.approx(8 / math.sqrt(ff / 8)),
        outliers=2 / 8,
        cosine=pytest.approx(cr / math.sqrt(cc * rr)),
        elements=8,
    )


@pytest.mark.parametrize(("error", "over"), [(0.5, 0.0), (0.5001, 0.25)], ids=["limit", "beyond"])
def test_an_outlier_lies_beyond_the_limit(error: float, over: float) -> None:
    fake = rows((1.0, 1.0), (1.0, 1.0))
    assert seam(fake + rows((error, 0.0), (0.0, 0.0)), fake, fake).outliers == over


def test_an_error_at_the_limit_is_none_of_the_outliers() -> None:
    fake = rows((1.0, 1.0), (1.0, 1.0))
    assert seam(fake + rows((0.5, 0.75), (0.0, 0.0)), fake, fake).outliers == 0.25
    assert seam(2 * fake + rows((0.9, 1.5), (0.0, 0.0)), 2 * fake, 2 * fake).outliers == 0.25


def test_a_faint_reference_has_a_slope() -> None:
    assert seam(rows((0.75, 0.0)), rows((0.5, 0.0)), rows((0.5, 0.0))).slope == 1.5


@pytest.mark.parametrize(
    ("share", "by"), [(0.0005, 4.0), (0.001, 0.004), (0.0015, 0.006)], ids=["below", "a_thousandth", "above"]
)
def test_a_row_below_a_thousandth_of_the_mean_is_judged_by_the_mean(share: float, by: float) -> None:
    fake = rows((4 * share, 0.0), (8 - 4 * share, 0.0))
    found = seam(fake + rows((0.0, 0.001), (0.0, 0.0)), fake, fake)
    assert found.row_rel_l2 == pytest.approx(0.001 / by)


@pytest.mark.parametrize(("norm", "worst"), [(0.0005, 0.002), (0.002, 0.5)], ids=["judged_by_the_mean", "by_its_own"])
def test_which_rows_are_small(norm: float, worst: float) -> None:
    fake = rows((norm, 0.0), (1.0, 0.0))
    found = seam(fake + rows((norm / 2, 0.0), (0.0, 0.0)), fake, fake).row_rel_l2
    assert found == pytest.approx(worst if norm > 0.001 else norm / 2 / ((1 + norm) / 2))


@pytest.mark.parametrize(
    ("candidate", "row", "largest"), [((0.0, 0.0), 0.0, 0.0), ((0.0, 3.0), 1.0, math.sqrt(2))], ids=["zero", "not"]
)
def test_a_zero_reference_takes_the_candidates_scale(
    candidate: tuple[float, float], row: float, largest: float
) -> None:
    zero = rows((0.0, 0.0))
    found = seam(rows(candidate), zero, zero)
    assert (found.slope, found.row_rel_l2, found.max_abs) == (1.0, row, pytest.approx(largest))
    assert found.cosine == (1.0 if row == 0 else 0.0)


def test_what_is_not_finite_counts_as_dropped() -> None:
    fake = rows((1.0, 2.0), (2.0, 4.0))
    found = seam(rows((1.0, 2.0), (math.nan, 4.0)), fake, fake)
    assert (found.finite, found.elements) == (False, 4)
    assert found.slope == pytest.approx(21 / 25)
    assert found.rel_l2 == pytest.approx(2 / 5)


def test_where_the_reference_overflows_nothing_is_compared() -> None:
    reference = rows((math.inf, 2.0))
    found = seam(rows((7.0, 2.0)), reference, rows((1.0, 2.0)))
    assert (found.finite, found.elements, found.rel_l2, found.candidate_error) == (True, 1, 0.0, 0.0)
    nothing = seam(rows((7.0,)), rows((math.inf,)), rows((1.0,)))
    assert (nothing.finite, nothing.elements, nothing.outliers, nothing.max_abs) == (False, 0, 1.0, 0.0)


WRONG = SeamMetrics(
    seat="s",
    case="edge",
    output=3,
    rows=0,
    finite=False,
    candidate_error=1.0,
    scheme_error=0.0,
    slope=0.0,
    rel_l2=1.0,
    row_rel_l2=1.0,
    max_abs=1.0,
    outliers=1.0,
    cosine=0.0,
    mismatch="(1, 2) for reference (2, 2)",
)


def test_another_shape_is_a_total_error() -> None:
    two, one = rows((1.0, 2.0), (3.0, 4.0)), rows((1.0, 2.0))
    assert seam(one, two, two) == WRONG
    assert incomparable("s", "edge", 3, WRONG.mismatch) == WRONG
    assert seam(two, two, one).mismatch == "(2, 2) for reference (2, 2)"


def test_no_rows_are_no_error() -> None:
    empty = torch.zeros(0, 2, dtype=torch.float64)
    assert seam(empty, empty, empty) == SeamMetrics(
        seat="s",
        case="edge",
        output=3,
        rows=0,
        finite=True,
        candidate_error=0.0,
        scheme_error=0.0,
        slope=1.0,
        rel_l2=0.0,
        row_rel_l2=0.0,
        max_abs=0.0,
        outliers=0.0,
        cosine=1.0,
    )


@pytest.mark.parametrize("block", [1, 1 << 20], ids=["a_row", "all_rows"])
def test_every_number_of_a_host_output(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", block)
    expected, candidate = rows((0.0, 3.0), (4.0, 0.0), (3.0, 4.0)), rows((0.0, 3.0), (0.0, 5.0), (4.0, 3.0))
    found = host_metrics(candidate, expected, "distribution", 7)
    p, q = (torch.softmax(torch.tensor(row, dtype=torch.float64), 0) for row in ((4.0, 0.0), (0.0, 5.0)))
    assert found == HostMetrics(
        sample=7,
        finite=True,
        cosine=pytest.approx((9 + 24) / math.sqrt(50 * 59)),
        top1=1 / 3,
        last_cosine=pytest.approx(24 / 25),
        kl=pytest.approx(float((p * (p / q).log()).sum())),
        max_abs=5.0,
    )
    values = host_metrics(candidate, expected, "values", 7)
    assert (values.top1, values.kl, values.max_abs, values.cosine) == (1.0, 0.0, 5.0, found.cosine)


def test_rounding_makes_no_divergence_negative() -> None:
    generator = torch.Generator().manual_seed(0)
    e = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    c = e + 1e-9 * torch.randn(1, 4, generator=generator, dtype=torch.float64)
    p, q = e.log_softmax(-1), c.log_softmax(-1)
    assert float((p.exp() * (p - q)).sum()) < 0
    assert host_metrics(c, e, "distribution", 0).kl == 0.0


def test_equal_outputs_diverge_by_nothing() -> None:
    same = rows((0.0, 3.0), (4.0, 0.1))
    found = host_metrics(same, same, "distribution", 0)
    assert (found.kl, found.top1, found.max_abs, found.finite) == (0.0, 1.0, 0.0, True)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("side", [0, 1], ids=["candidate", "expected"])
def test_what_is_not_finite_in_a_host_output_counts_as_zero(side: int, value: float) -> None:
    outputs = [rows((1.0, 2.0), (2.0, 1.0)), rows((1.0, 2.0), (2.0, 1.0))]
    outputs[side][0, 1] = value
    found = host_metrics(outputs[0], outputs[1], "values", 0)
    assert (found.finite, found.max_abs) == (False, 2.0)
    assert found.cosine == pytest.approx(6 / math.sqrt(60))


def test_one_value_can_be_compared_and_none_cannot() -> None:
    one = torch.tensor(2.0)
    assert host_metrics(one, one, "values", 0).cosine == 1.0
    with pytest.raises(EvidenceError, match="sample 5"):
        host_metrics(torch.zeros(2, 0), torch.zeros(2, 0), "values", 5)
