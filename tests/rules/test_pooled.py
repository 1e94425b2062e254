"""One bad channel and a near miss: beyond chance, and never by a number that is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics, PooledMetrics
from pytest_frt.errors import EvidenceError
from pytest_frt.rules import pooled, rows
from pytest_frt.rules.thresholds import ALTERNATIVE_SHARE, SLOPE_SIGMAS
from tests.rules.sound import LIMITS, NEAR, POOLED

LIMIT = LIMITS.slope
LARGE = math.sqrt(25 + 2 * math.log(640))
"""Standard errors that the largest of 640 channels reaches by chance as rarely as one reaches five."""


def gained(gain: float, spread: float, channels: int = 1) -> PooledMetrics:
    return replace(POOLED, channels=channels, worst=(ChannelMetrics(7, gain, spread),), alternatives=())


def near(*shares: tuple[float, float]) -> PooledMetrics:
    found = (AlternativeMetrics(f"near_{i}", share, spread, 32) for i, (share, spread) in enumerate(shares))
    return replace(POOLED, worst=(), alternatives=tuple(found))


def test_sound_numbers_hold() -> None:
    assert pooled.breaches(POOLED, LIMITS) == ()
    assert pooled.numbers(POOLED) == {"channel": pytest.approx(0.001), "alternative": 0.25, "untold": 0.0}
    assert pooled.ceilings(POOLED, LIMITS) == {"channel": LIMIT, "alternative": 0.5, "untold": 1.0}


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        pytest.param(gained(LIMIT, 0.0), False, id="at_the_limit"),
        pytest.param(gained(1.01 * LIMIT, 0.0), True, id="over_the_limit"),
        pytest.param(gained(-1.01 * LIMIT, 0.0), True, id="too_small_a_channel"),
        pytest.param(gained(0.1, 0.0195), True, id="beyond_chance"),
        pytest.param(gained(0.1, 0.02), False, id="within_five_standard_errors"),
        pytest.param(gained(0.1, 0.0195, 640), False, id="within_chance_of_the_largest_of_many"),
        pytest.param(gained(0.1, 0.097 / LARGE, 640), True, id="beyond_chance_of_the_largest_of_many"),
        pytest.param(gained(0.1, 0.0985 / LARGE, 640), False, id="no_further_than_the_limit_beyond_it"),
        pytest.param(gained(0.0, 0.0, 0), False, id="no_channel"),
        pytest.param(gained(math.nan, 0.0), True, id="gain_is_none"),
    ],
)
def test_channel(found: PooledMetrics, *, refused: bool) -> None:
    assert pooled.breaches(found, LIMITS) == (("channel",) if refused else ())


def test_what_chance_explains_is_stated_as_nothing() -> None:
    assert pooled.numbers(gained(0.1, 0.05))["channel"] == 0.0
    assert pooled.worst_channel(near()) == ChannelMetrics(0, 0.0, 0.0)


def test_the_channel_named_is_the_one_furthest_beyond_chance() -> None:
    some = (ChannelMetrics(1, 0.5, 0.2), ChannelMetrics(2, -0.3, 0.01), ChannelMetrics(3, 0.01, 0.0))
    found = replace(POOLED, channels=3, worst=some)
    assert pooled.worst_channel(found).index == 2
    assert pooled.place(found, "channel") == "channel_2"


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        pytest.param(near((0.5, 0.1)), False, id="at_the_midpoint"),
        pytest.param(near((0.501, 0.1)), True, id="past_the_midpoint"),
        pytest.param(near((-0.501, 0.1)), True, id="away_from_both"),
        pytest.param(near((1.0, 0.101)), False, id="not_told"),
        pytest.param(near((1.0, math.nan)), False, id="spread_is_none"),
        pytest.param(near((0.1, 0.0), (1.0, 0.0)), True, id="second_of_two"),
        pytest.param(near((9.0, 9.0), (0.0, 0.0)), False, id="untold_beside_told"),
        pytest.param(near((math.nan, 0.0)), True, id="share_is_none"),
        pytest.param(near(), False, id="none_named"),
    ],
)
def test_alternative(found: PooledMetrics, *, refused: bool) -> None:
    assert pooled.breaches(found, LIMITS) == (("alternative",) if refused else ())


def test_what_is_not_told_is_counted_and_named() -> None:
    found = near((1.0, 0.2), (0.0, 0.0), (1.0, 5.0))
    assert pooled.numbers(found)["untold"] == 2
    assert pooled.place(found, "untold") == "near_0+near_2"
    assert pooled.place(near((0.0, 0.0)), "untold") == "none"


def test_the_near_miss_named_is_the_nearest_of_those_told() -> None:
    found = near((0.2, 0.0), (-0.4, 0.0), (0.9, 0.3))
    assert pooled.place(found, "alternative") == "near_1"
    assert pooled.place(near((0.9, 0.3)), "alternative") == "none"


def test_told_means_that_reference_and_near_miss_are_five_standard_errors_from_the_midpoint() -> None:
    assert pooled.told(replace(NEAR, spread=ALTERNATIVE_SHARE.value / SLOPE_SIGMAS.value))
    assert not pooled.told(replace(NEAR, spread=1.001 * ALTERNATIVE_SHARE.value / SLOPE_SIGMAS.value))


def test_rows_take_the_worst_output_of_each_seat() -> None:
    second = replace(POOLED, output=1, worst=(ChannelMetrics(0, 0.0015, 0.0),), alternatives=())
    other = replace(near((0.0, 0.3)), seat="b")
    built = {
        row.name: row for row in rows.pooled_rows([POOLED, second, other], ["a", "b"], dict.fromkeys("ab", LIMITS))
    }
    assert [row.removeprefix("parity.seam.") for row in built] == list(rows.POOLED_NUMBERS)
    channel, share, untold = built.values()
    assert (channel.samples, channel.floor, channel.measured) == (("0.0015", "0"), "0.002", "0.0015")
    assert (share.samples, share.floor) == (("0.25", "0"), "0.5")
    assert (untold.samples, untold.floor, untold.measured) == (("0", "1"), "1", "1")


def test_an_untold_near_miss_is_never_stated_as_told() -> None:
    (untold,) = (row for row in rows.pooled_rows([POOLED], ["a"], {"a": LIMITS}) if row.name.endswith("untold"))
    assert (untold.op, untold.floor, untold.measured) == ("<=", "0", "0")


def test_seats_of_several_schemes_have_no_one_ceiling_for_a_channel() -> None:
    both = {"a": LIMITS, "b": replace(LIMITS, slope=0.007)}
    built = rows.pooled_rows([POOLED, replace(POOLED, seat="b")], ["a", "b"], both)
    assert [row.name for row in built] == ["parity.seam.alternative", "parity.seam.untold"]


def test_a_seat_nobody_pooled_has_no_rows() -> None:
    with pytest.raises(EvidenceError, match="b"):
        rows.pooled_rows([POOLED], ["a", "b"], dict.fromkeys("ab", LIMITS))
    with pytest.raises(EvidenceError, match="plain decimal"):
        rows.pooled_rows([gained(0.0, 0.0), gained(math.nan, 0.0)], ["a"], {"a": LIMITS})
