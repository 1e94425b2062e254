"""No NaN or Inf compares as a pass: drawn anywhere, in outputs, metrics, limits, controls and spreads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pytest_frt.contracts.evidence import Conduct, HostMetrics, SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.verdict import Pass
from pytest_frt.measure.blocks import cosine, relative
from pytest_frt.measure.metrics import host_metrics, seam_metrics
from pytest_frt.rules import bands, conduct, seam
from pytest_frt.rules.exact import meets

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
ROWS, WIDTH = 6, 8
CLEAN = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BROKEN = st.sampled_from([math.nan, math.inf, -math.inf])
PLACES = st.lists(st.integers(0, ROWS * WIDTH - 1), min_size=1, max_size=ROWS * WIDTH, unique=True)
GOOD = HostMetrics(sample=0, finite=True, cosine=1.0, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=0.0)
NAN = math.nan


def spoiled(places: list[int], value: float) -> Tensor:
    out = CLEAN.clone()
    out.view(-1)[places] = value
    return out


def metrics(candidate: Tensor, reference: Tensor = CLEAN, fake: Tensor = CLEAN) -> SeamMetrics:
    return seam_metrics(candidate, reference, fake, seat="s", case="real", output=0, limits=LIMITS)


@settings(max_examples=60, deadline=None)
@given(places=PLACES, value=BROKEN)
def test_a_broken_candidate_is_refused(places: list[int], value: float) -> None:
    assert seam.fault(metrics(spoiled(places, value)), LIMITS) == "nan"


@settings(max_examples=60, deadline=None)
@given(places=PLACES, value=BROKEN, broken=BROKEN)
def test_a_scheme_that_overflows_alone_excuses_nobody(places: list[int], value: float, broken: float) -> None:
    fake = spoiled(places, value)
    assert seam.fault(metrics(spoiled(places, broken), fake=fake), LIMITS) == "nan"
    assert seam.fault(metrics(CLEAN, fake=fake), LIMITS) == "nan"


@settings(max_examples=40, deadline=None)
@given(places=PLACES, value=BROKEN, kind=st.sampled_from(["values", "distribution"]), side=st.booleans())
def test_a_broken_host_output_is_refused(places: list[int], value: float, kind: str, side: bool) -> None:  # noqa: FBT001
    pair = (spoiled(places, value), CLEAN) if side else (CLEAN, spoiled(places, value))
    sample = host_metrics(*pair, kind, 0)
    assert not isinstance(bands.judge_samples(kind, [GOOD] * 11 + [sample]), Pass)
    assert bands.judge_probes(kind, [sample])


NUMBERS = [f.name for f in fields(SeamMetrics) if f.type == "float" and f.name != "cosine"]
EXACT = metrics(CLEAN)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("base", [EXACT, metrics(CLEAN * 1.0001)], ids=["no_error", "some_error"])
def test_a_number_of_the_seam_that_is_none_is_a_fault(name: str, base: SeamMetrics) -> None:
    assert seam.fault(base, LIMITS) == ""
    assert seam.fault(replace(base, **{name: NAN}), LIMITS)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [f.name for f in fields(SeamLimits) if f.name != "because"])
def test_a_limit_that_is_no_number_lets_nothing_through(name: str) -> None:
    limits = replace(LIMITS, **{name: NAN})
    some = metrics(CLEAN + 1e-4 * CLEAN.flip(0))
    assert seam.fault(some, LIMITS) == ""
    assert seam.fault(some, limits)


HOST = [(kind, band.metric) for kind, some in bands.BANDS.items() for band in some]


@pytest.mark.parametrize(("kind", "metric"), HOST)
def test_a_number_of_the_host_that_is_none_is_refused(kind: str, metric: str) -> None:
    bad = replace(GOOD, **{metric: NAN})
    assert not isinstance(bands.judge_samples(kind, [bad] + [GOOD] * 11), Pass)
    assert not isinstance(bands.judge_samples(kind, [GOOD] * 12, spread=[bad]), Pass)
    assert bands.judge_probes(kind, [GOOD, bad])


@pytest.mark.parametrize("kind", bands.BANDS)
def test_a_control_without_a_number_did_not_collapse(kind: str) -> None:
    headline = bands.of_kind(kind)[0].metric
    fallen = replace(GOOD, **{headline: 0.1})
    assert bands.collapsed(kind, [fallen])
    assert not bands.collapsed(kind, [fallen, replace(GOOD, **{headline: NAN})])


CONDUCTS: dict[str, dict[str, Any]] = {"repeat": {"repeat": NAN}, "layout": {"layouts": {"sliced": NAN}}}


@pytest.mark.parametrize("change", CONDUCTS.values(), ids=CONDUCTS)
def test_a_difference_that_is_no_number_is_refused(change: dict[str, Any]) -> None:
    one = replace(Conduct("s", 3, 0.0, carried=False, layouts={}, raised={}, mates=0.0, mates_rows=(1, 1)), **change)
    assert conduct.fault("s", [one], LIMITS, (Limit("repeat", "<=", 1.0, "wide"),))


@pytest.mark.parametrize("op", [">=", "<=", ">", "<"])
@pytest.mark.parametrize(("value", "limit"), [(NAN, 1.0), (1.0, NAN), (NAN, NAN)], ids=str)
def test_nan_meets_nothing(op: str, value: float, limit: float) -> None:
    assert not meets(value, op, limit)


@pytest.mark.parametrize(
    "ratio", [lambda: relative(NAN, 1.0), lambda: cosine(NAN, 1.0, 1.0), lambda: cosine(1.0, NAN, 1.0)]
)
def test_a_ratio_of_nan_is_nan(ratio: Callable[[], float]) -> None:
    assert math.isnan(ratio())


def test_an_error_against_a_norm_of_nan_is_total() -> None:
    assert relative(1.0, NAN) == 1.0
