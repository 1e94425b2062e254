"""Host bands: the median must pass and the worst must reach warn, per output kind."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import HostMetrics
from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.errors import SpecError
from pytest_frt.rules.bands import BANDS, collapsed, judge_probes, judge_samples, of_kind, timed_output_floor

GOOD = HostMetrics(sample=0, finite=True, cosine=1.0, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=0.0)
KIND = {"cosine": "values", "top1": "distribution", "last_cosine": "distribution", "kl": "distribution"}
BAND = {band.metric: band for bands in BANDS.values() for band in bands}


def samples(metric: str, values: Sequence[float]) -> list[HostMetrics]:
    return [replace(GOOD, sample=index, **{metric: value}) for index, value in enumerate(values)]


@pytest.mark.parametrize("metric", KIND)
@pytest.mark.parametrize(
    ("shape", "band"),
    [
        pytest.param(("pass",) * 12, "pass", id="all_pass"),
        pytest.param(("warn", *("pass",) * 11), "warn", id="worst_warns"),
        pytest.param(("low", *("pass",) * 11), "low", id="worst_too_low"),
        pytest.param((*("warn",) * 7, *("pass",) * 5), "low", id="median_warns"),
        pytest.param(("low",) * 12, "low", id="all_low"),
    ],
)
def test_band(metric: str, shape: tuple[str, ...], band: str) -> None:
    limits = BAND[metric]
    beyond = limits.warning - 0.01 if limits.op == ">=" else limits.warning + 0.01
    value = {"pass": limits.passing, "warn": limits.warning, "low": beyond}
    verdict = judge_samples(KIND[metric], samples(metric, [value[word] for word in shape]))
    if isinstance(verdict, Pass):
        assert verdict.band == band
    else:
        assert isinstance(verdict, Refusal)
        assert (verdict.reason, band) == ("host_band", "low")
        assert metric in verdict.detail


@pytest.mark.parametrize("metric", KIND)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 11])
def test_a_number_that_is_none_never_passes(metric: str, value: float, place: int) -> None:
    values = [getattr(GOOD, metric)] * 12
    values[place] = value
    verdict = judge_samples(KIND[metric], samples(metric, values))
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "nan"


def test_a_nan_output_never_passes() -> None:
    verdict = judge_samples("values", [GOOD] * 11 + [replace(GOOD, sample=11, finite=False)])
    assert isinstance(verdict, Refusal)
    assert "11" in verdict.detail


@pytest.mark.parametrize("count", [0, 11])
def test_too_few_samples_are_refused(count: int) -> None:
    verdict = judge_samples("values", [GOOD] * count)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "few_samples"


@pytest.mark.parametrize(("own", "passes"), [(0.97, True), (0.99, False), (math.nan, False)])
def test_multimodal_worst_is_judged_by_the_hosts_own_spread(own: float, *, passes: bool) -> None:
    far = samples("cosine", [0.98] + [1.0] * 11)
    assert isinstance(judge_samples("values", far), Refusal)
    assert isinstance(judge_samples("values", far, spread=samples("cosine", [own, 1.0])), Pass) is passes


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        pytest.param("values", {"cosine": 0.996}, "", id="within_warn"),
        pytest.param("values", {"cosine": 0.994}, "stale", id="cosine"),
        pytest.param("distribution", {"kl": 0.51}, "stale", id="kl"),
        pytest.param("distribution", {"last_cosine": 0.94}, "stale", id="last_cosine"),
        pytest.param("distribution", {"top1": 0.0}, "", id="a_share_of_few_positions_decides_nothing"),
        pytest.param("distribution", {"kl": math.nan}, "nan", id="nan"),
        pytest.param("values", {"finite": False}, "nan", id="output_with_a_nan"),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_probes_must_reach_what_the_worst_must(kind: str, change: dict[str, float], reason: str, place: int) -> None:
    probes = [GOOD, GOOD]
    probes[place] = replace(GOOD, **change)  # type: ignore[arg-type]
    refusal = judge_probes(kind, probes)
    assert (refusal.reason if refusal else "") == reason


def test_without_a_probe_nothing_is_shown() -> None:
    refusal = judge_probes("values", [])
    assert refusal is not None
    assert refusal.reason == "no_control"


@pytest.mark.parametrize(("own", "passes"), [(0.97, True), (0.996, False)])
def test_probes_may_be_as_far_off_as_two_seeds(own: float, *, passes: bool) -> None:
    probe = replace(GOOD, cosine=0.98)
    assert (judge_probes("values", [probe], spread=samples("cosine", [own, 1.0])) is None) is passes


@pytest.mark.parametrize(
    ("zeroed", "falls"),
    [
        pytest.param([0.2, 0.5], True, id="both_fall"),
        pytest.param([0.2, 0.996], False, id="one_stays"),
        pytest.param([], False, id="none_recorded"),
    ],
)
def test_control_collapses(zeroed: list[float], *, falls: bool) -> None:
    assert collapsed("values", samples("cosine", zeroed)) is falls


def test_unknown_kind_is_an_error() -> None:
    with pytest.raises(SpecError, match="logits"):
        of_kind("logits")


@pytest.mark.parametrize("kind", BANDS)
def test_every_band_has_room_and_a_reason(kind: str) -> None:
    for band in of_kind(kind):
        assert band.because
        assert (band.passing > band.warning) is (band.op == ">=")
    assert timed_output_floor(kind) in {band.warning for band in of_kind(kind)}
