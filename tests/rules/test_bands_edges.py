"""Edges of the host bands: the shipped numbers, what a verdict states, and either direction of worst and best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import HostMetrics
from pytest_frt.contracts.verdict import Measured, Pass, Refusal
from pytest_frt.rules import bands
from pytest_frt.rules.bands import Band, collapsed, judge_probes, judge_samples, timed_output_floor

GOOD = HostMetrics(sample=0, finite=True, cosine=1.0, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=0.0)
SHIPPED = {
    "cosine": (">=", 0.999, 0.995),
    "top1": (">=", 0.95, 0.85),
    "last_cosine": (">=", 0.99, 0.95),
    "kl": ("<=", 0.1, 0.5),
}


def samples(metric: str, values: Sequence[float]) -> list[HostMetrics]:
    return [replace(GOOD, sample=index, **{metric: value}) for index, value in enumerate(values)]  # type: ignore[arg-type]


def test_shipped_limits() -> None:
    found = {band.metric: (band.op, band.passing, band.warning) for kind in bands.BANDS.values() for band in kind}
    assert found == SHIPPED
    assert [band.metric for band in bands.of_kind("values")] == ["cosine"]
    assert [band.metric for band in bands.of_kind("distribution")] == ["top1", "last_cosine", "kl"]
    assert (timed_output_floor("values"), timed_output_floor("distribution")) == (0.995, 0.95)


@pytest.mark.parametrize(("op", "worst", "best"), [(">=", 1.0, 3.0), ("<=", 3.0, 1.0)])
def test_worst_and_best_follow_the_direction(op: str, worst: float, best: float) -> None:
    band = Band("kl", op, 0.0, 0.0, "test")
    assert (band.worst([2.0, 3.0, 1.0]), band.best([2.0, 3.0, 1.0])) == (worst, best)


def test_a_pass_states_median_and_worst_of_every_metric() -> None:
    verdict = judge_samples("values", samples("cosine", [0.996, *[1.0] * 11]))
    numbers = (
        Measured("host.cosine.median", 1.0, ">=", 0.999, 12),
        Measured("host.cosine.worst", 0.996, ">=", 0.995, 12),
    )
    assert verdict == Pass("parity", numbers, band="warn")


def test_a_refusal_says_which_metric_is_low() -> None:
    verdict = judge_samples("distribution", samples("kl", [0.6] * 12))
    assert isinstance(verdict, Refusal)
    assert (verdict.reason, verdict.at) == ("host_band", "host")
    assert verdict.detail == "kl median 0.6 (needs <= 0.1), worst 0.6 (needs <= 0.5)"
    assert [(one.metric, one.value) for one in verdict.measured][-2:] == [
        ("host.kl.median", 0.6),
        ("host.kl.worst", 0.6),
    ]


def test_one_warning_metric_among_three_warns() -> None:
    verdict = judge_samples("distribution", samples("top1", [0.9, *[1.0] * 11]))
    assert isinstance(verdict, Pass)
    assert verdict.band == "warn"


@pytest.mark.parametrize(
    ("metric", "own", "worst", "passes"),
    [
        pytest.param("cosine", 0.9, 0.9, True, id="as_far_as_the_host_itself"),
        pytest.param("cosine", 0.9, 0.899, False, id="farther_than_the_host"),
        pytest.param("cosine", 1.0, 0.995, True, id="a_narrow_spread_tightens_nothing"),
        pytest.param("kl", 2.0, 2.0, True, id="divergence_as_far_as_the_host"),
        pytest.param("kl", 2.0, 2.1, False, id="divergence_farther"),
        pytest.param("kl", 0.0, 0.5, True, id="no_divergence_tightens_nothing"),
    ],
)
def test_spread_widens_the_warn_band_only(metric: str, own: float, worst: float, *, passes: bool) -> None:
    kind = "values" if metric == "cosine" else "distribution"
    good = getattr(GOOD, metric)
    far, spread = samples(metric, [worst, *[good] * 11]), samples(metric, [good, own])
    verdict = judge_samples(kind, far, spread=spread)
    assert isinstance(verdict, Pass) is passes
    if isinstance(verdict, Pass):
        assert verdict.band == "warn"


def test_a_nan_is_told_by_its_samples() -> None:
    broken = [*samples("cosine", [1.0] * 11), replace(GOOD, sample=42, finite=False)]
    verdict = judge_samples("values", broken)
    assert isinstance(verdict, Refusal)
    assert (verdict.at, verdict.detail) == ("host", "NaN or Inf in host outputs of held-out samples 42")
    spoiled = judge_samples("values", samples("cosine", [1.0] * 12), spread=[replace(GOOD, sample=7, cosine=math.nan)])
    assert isinstance(spoiled, Refusal)
    assert spoiled.detail.endswith("samples 7")


@pytest.mark.parametrize(
    ("metric", "value", "falls"),
    [("cosine", 0.995, False), ("cosine", 0.9949, True), ("top1", 0.85, False), ("top1", 0.8499, True)],
)
def test_a_control_falls_below_the_warn_band(metric: str, value: float, *, falls: bool) -> None:
    kind = "values" if metric == "cosine" else "distribution"
    assert collapsed(kind, samples(metric, [value])) is falls


def test_a_control_whose_output_is_not_finite_has_fallen_and_one_without_a_number_has_not() -> None:
    assert collapsed("values", [replace(GOOD, finite=False)])
    assert not collapsed("values", samples("cosine", [math.nan]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"last_cosine": 0.95, "kl": 0.5}, "", id="warn_is_enough"),
        pytest.param({"last_cosine": 0.9499}, "stale", id="next_token_turned"),
        pytest.param({"kl": 0.5001}, "stale", id="other_distribution"),
        pytest.param({"top1": 0.0}, "", id="a_share_over_few_positions_is_left_out"),
        pytest.param({"kl": math.nan}, "nan", id="nan_metric"),
        pytest.param({"finite": False}, "nan", id="nan_output"),
    ],
)
def test_every_probe_must_reach_warn(change: dict[str, float], reason: str) -> None:
    found = judge_probes("distribution", [GOOD, replace(GOOD, **change)])  # type: ignore[arg-type]
    assert (found.reason if found else "") == reason
    assert found is None or (found.gate, found.at) == ("parity", "host")


def test_a_stale_probe_states_its_numbers() -> None:
    found = judge_probes("values", [GOOD, replace(GOOD, cosine=0.9)])
    assert found is not None
    assert found.measured == (Measured("probe.cosine", 0.9, ">=", 0.995, 2),)
    assert judge_probes("values", [replace(GOOD, cosine=0.9)], spread=[replace(GOOD, cosine=0.9)]) is None
    none = judge_probes("values", [])
    assert none is not None
    assert (none.reason, none.at) == ("no_control", "host")


def test_twelve_samples_are_enough_and_eleven_are_not() -> None:
    assert isinstance(judge_samples("values", [GOOD] * 12), Pass)
    few = judge_samples("values", [GOOD] * 11)
    assert isinstance(few, Refusal)
    assert few.detail.startswith("11 held-out samples, needs 12")
