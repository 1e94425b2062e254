"""What a report shows of seats and clocks: the worst of each number, and None where there is no number."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.pooled import ChannelMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.rules.thresholds import ALTERNATIVE_SHARE
from pytest_frt.run import shown
from pytest_frt.run.shown import Shown
from pytest_frt.spec import codec
from tests.rules.sound import POOLED

TERMS = SeamLimits(2.0, 1e-6, 0.002, 0.02, 0.05, 0.3, 0.0, "half a step")
METRICS = SeamMetrics(
    seat="a", case="real", output=0, rows=8, finite=True, candidate_error=0.01, scheme_error=0.01, slope=1.0,
    rel_l2=0.004, row_rel_l2=0.01, max_abs=0.1, outliers=0.0, cosine=1.0, elements=64,
)  # fmt: skip
UNIT: Any = SimpleNamespace(id="u", scheme="w16a32", structure="ffn")


def settled(*seam: SeamMetrics, terms: SeamLimits | None = TERMS) -> Any:
    together = (POOLED, replace(POOLED, output=1, worst=(ChannelMetrics(5, 0.5, 0.01),)))
    tried = SimpleNamespace(limits={"u": terms} if terms else {}, parity=SimpleNamespace(seam=seam, pooled=together))
    return SimpleNamespace(tried=tried)


def seen(*seam: SeamMetrics) -> Shown:
    found = shown.of_seams(settled(*seam), UNIT, [Limit("cosine", ">=", 0.99, "sources differ less")])
    assert found is not None
    return found


def test_each_number_is_shown_where_it_is_nearest_its_limit() -> None:
    ramp = replace(METRICS, case="ramp", output=1, rel_l2=0.019)
    (seat,) = seen(METRICS, ramp, replace(METRICS, case="zeros", rel_l2=0.0)).seats
    number = next(one for one in seat.numbers if one.metric == "rel_l2")
    assert (number.value, number.limit, number.at, number.n) == (0.019, 0.02, "ramp#1", 64)


def test_systematic_numbers_are_shown_where_they_were_read() -> None:
    (seat,) = seen(METRICS).seats
    channel, near = seat.numbers[-2:]
    assert (channel.metric, channel.limit, channel.at, channel.n) == ("channel", 0.002, "channel_5#1", 100)
    assert (near.metric, near.value, near.limit, near.at) == ("alternative", 0.25, 0.5, "other#0")
    assert seen(replace(METRICS, seat="b")).seats[0].numbers[-1].metric == "outliers"


def test_nan_is_worse_than_any_number_and_survives_the_way_to_the_controller() -> None:
    found = seen(METRICS, replace(METRICS, case="ramp", rel_l2=math.nan))
    number = next(one for one in found.seats[0].numbers if one.metric == "rel_l2")
    assert (number.value, number.at) == (None, "ramp#0")
    assert codec.loads(Shown, codec.dumps(found)) == found


def test_limits_come_with_their_origin_and_reason() -> None:
    bounds = {one.name: one for one in seen(METRICS).bounds}
    assert (bounds["seam.rel_l2"].value, bounds["seam.rel_l2"].origin) == (0.02, "scheme w16a32")
    assert (bounds["cosine"].op, bounds["cosine"].origin) == (">=", "structure ffn")
    assert (bounds["seam.channel"].value, bounds["seam.alternative"].origin) == (0.002, "rule")
    half = ALTERNATIVE_SHARE.because
    assert {one.because for one in bounds.values()} == {"half a step", "sources differ less", half}


def test_record_that_was_never_compared_shows_nothing() -> None:
    untried: Any = SimpleNamespace(tried=None)
    assert shown.of_seams(untried, UNIT, []) is None
    assert shown.of_seams(settled(terms=None), UNIT, []) is None


def test_traces_keep_the_order_of_units_and_processes() -> None:
    def sample(arm: str, seconds: float, canary: float) -> TimedSample:
        return TimedSample(arm, 0, seconds, seconds, canary)

    fast = TimedPair(sample("base", 0.2, 1e-3), sample("x", 0.1, 1e-3), base_first=True)
    drifts = TimedPair(sample("base", 0.2, 2e-3), sample("x", 0.1, 1e-3), base_first=False)
    one = ProcessTiming(0, ((fast, fast), (drifts, drifts)), (fast, fast), 1.0, 0.1, 0.02, 2.0)
    idle = replace(one, process=1, blocks=((fast, fast),), null=(), wall_s=0.0)
    found = shown.of_timing(TimingEvidence((one, idle), (0.2, 0.21, 0.2), 1, quick=False))
    first, second = found.traces
    assert [round(value or 0, 6) for value in first.canary] == [1, 2]
    assert first.canary_s == (1e-3, 1.5e-3)
    assert (len(first.null), first.base_s, first.candidate_s, first.steal) == (1, 0.2, 0.1, 0.05)
    assert (second.process, second.null, second.steal) == (1, (), None)
    assert found.witness_s == (0.2, 0.21, 0.2)
