"""Points far over the others are named with their numbers; their seats stay with the host where a scheme says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from pytest_frt.contracts.scheme import Ceiling, Scheme, SeamLimits
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts
from pytest_frt.errors import CalibrationRefused
from pytest_frt.schemes import fp8_static, fp8_static_keep_outliers
from pytest_frt.seat.calibrate import Survey, calibrate, survey

LIMITS = SeamLimits(2, 0, 0.002, 1, 1, 1, 0, "toy")


def scheme(*, keeps_host: bool, factor: float = 20.0) -> Scheme:
    ceiling = Ceiling(factor, keeps_host, "toy")
    return Scheme("toy", "A toy.", lambda w, _: w, lambda x, _: x, "all", "amax", 448.0, 100, LIMITS, ceiling=ceiling)


def seat(name: str, *points: str) -> SeatFacts:
    return SeatFacts("toy", ModuleSeat(name), {}, {}, {}, {}, "float32", {one: PointAt(one) for one in points})


def surveyed(peaks: Sequence[float], by: Scheme) -> Survey:
    """Calibrate one seat per peak, each with one point that reaches it."""
    model = nn.ModuleDict({f"m{index}": nn.Identity() for index in range(len(peaks))})

    def run() -> None:
        for module, peak in zip(model.values(), peaks, strict=True):
            module(torch.tensor([[-peak, 0.1 * peak]]))

    return survey(model, [run], [seat(f"s{index}", f"m{index}") for index in range(len(peaks))], by)


def test_seat_over_the_ceiling_stays_with_the_host_with_the_numbers() -> None:
    found = surveyed([1.0, 2.0, 3.0, 4.0, 70.0], scheme(keeps_host=True))
    assert set(found.scales) == {"s0", "s1", "s2", "s3"}
    said = "point m4 reaches 70, 23.33 times the median 3 of 5 points (ceiling 20): toy leaves the seat to the host"
    assert found.refused == {"s4": said}


def test_where_the_scheme_only_states_it_the_seat_is_calibrated() -> None:
    found = surveyed([1.0, 2.0, 3.0, 4.0, 70.0], scheme(keeps_host=False))
    assert set(found.scales) == {"s0", "s1", "s2", "s3", "s4"}
    (over,) = found.over
    assert (over.seat, over.amax, over.median, over.points, over.factor) == ("s4", 70.0, 3.0, 5, 20.0)
    assert found.notes() == (f"s4: {over}",)


@pytest.mark.parametrize(("peak", "count"), [(20.0, 0), (20.5, 1)], ids=["at", "over"])
def test_ceiling_itself_is_allowed(peak: float, count: int) -> None:
    assert len(surveyed([1.0, 1.0, 1.0, peak], scheme(keeps_host=True)).over) == count


def test_dead_points_are_no_part_of_the_median_and_are_flagged() -> None:
    found = surveyed([0.0, 0.0, 0.0, 1.0, 2.0], scheme(keeps_host=True))
    assert (found.over, found.refused) == ((), {})
    assert found.notes() == tuple(f"s{index}|m{index} was zero in all 1 samples" for index in range(3))


def test_nothing_but_dead_points_has_no_ceiling() -> None:
    assert surveyed([0.0, 0.0], scheme(keeps_host=True)).over == ()


def test_point_without_a_sound_statistic_is_no_part_of_the_median() -> None:
    found = surveyed([1.0, 1.0, 30.0, float("nan"), float("inf")], scheme(keeps_host=True))
    assert [one.seat for one in found.over] == ["s2"]
    assert found.over[0].points == 3
    assert "point m3 held NaN or Inf" in found.refused["s3"]


def test_refusal_tells_the_ceiling_from_a_fault() -> None:
    found = surveyed([1.0, 1.0, 30.0, float("nan")], scheme(keeps_host=True))
    assert {one.at: (one.reason, len(one.measured)) for one in found.refusals()} == {
        "s2": ("ceiling", 1),
        "s3": ("calibration", 0),
    }


def test_furthest_point_comes_first_and_names_its_seat() -> None:
    model = nn.ModuleDict({name: nn.Identity() for name in "abcde"})

    def run() -> None:
        for module, peak in zip(model.values(), (1.0, 1.0, 1.0, 50.0, 90.0), strict=True):
            module(torch.tensor([peak]))

    found = survey(model, [run], [seat("s", "a", "b"), seat("t", "c", "d", "e")], scheme(keeps_host=True))
    assert [one.point for one in found.over] == ["e", "d"]
    assert found.refused["t"].startswith("point e reaches 90")


def test_no_seat_left_is_an_error_that_says_why() -> None:
    one = seat("s", "a", "b", "c")
    model = nn.ModuleDict({name: nn.Identity() for name in "abc"})

    def run() -> None:
        for module, peak in zip(model.values(), (1.0, 1.0, 50.0), strict=True):
            module(torch.tensor([peak]))

    with pytest.raises(CalibrationRefused, match="s: point c reaches 50, 50 times the median 1 of 3 points"):
        calibrate(model, [run], [one], scheme(keeps_host=True))


def test_shipped_schemes_differ_in_what_they_decide_alone() -> None:
    stated, kept = fp8_static.SCHEME.ceiling, fp8_static_keep_outliers.SCHEME.ceiling
    assert stated is not None
    assert kept is not None
    assert (stated.factor, stated.keeps_host, kept.factor, kept.keeps_host) == (20.0, False, 20.0, True)
