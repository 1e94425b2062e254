"""What only the rows of all cases together show takes one seat; what they cannot tell is stated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import CandidateEvidence, ParityEvidence, SeamMetrics
from pytest_frt.contracts.pooled import AlternativeMetrics, ChannelMetrics, PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.verdict import Measured
from pytest_frt.gates import parity, parity_pooled
from pytest_frt.gates.parity import ParityVerdict, SeatTerms, Terms
from tests.gates.conftest import sound_pooled

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
TERMS = Terms({"a": SeatTerms(LIMITS), "b": SeatTerms(LIMITS)}, "values", "random")
GOOD = sound_pooled("a")
BAD_CHANNEL = replace(GOOD, worst=(ChannelMetrics(5, 0.1, 0.001),))
NEAR_MISS = replace(GOOD, alternatives=(AlternativeMetrics("gelu_erf", 0.98, 0.02, 32),))


def judged(seam: list[SeamMetrics], candidate: CandidateEvidence, *together: PooledMetrics) -> ParityVerdict:
    return parity.judge(ParityEvidence(tuple(seam), (), pooled=together), candidate, TERMS)


@pytest.mark.parametrize(
    ("spoiled", "word", "said"),
    [
        pytest.param(BAD_CHANNEL, "channel", "a|channel_5#0", id="one_channel_off"),
        pytest.param(NEAR_MISS, "alternative", "a|gelu_erf#0", id="the_other_gelu"),
        pytest.param(replace(NEAR_MISS, worst=BAD_CHANNEL.worst), "channel", "a|gelu_erf#0", id="both"),
    ],
)
def test_a_systematic_error_refuses_its_seat_alone(
    seam: list[SeamMetrics], candidate: CandidateEvidence, spoiled: PooledMetrics, word: str, said: str
) -> None:
    seats = judged(seam, candidate, spoiled, sound_pooled("b")).seats
    (refusal,) = seats.refused
    assert (seats.survivors, refusal.gate, refusal.at, refusal.reason) == (("b",), "parity", "a", word)
    assert said in refusal.detail
    assert all(number.value > number.required for number in refusal.measured)


def test_any_output_of_a_seat_refuses_it(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    seats = judged(seam, candidate, GOOD, replace(NEAR_MISS, output=1), sound_pooled("b")).seats
    assert [refusal.measured[0].at for refusal in seats.refused] == ["a|gelu_erf#1"]


def test_a_seat_that_was_not_pooled_is_unjudged(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    (refusal,) = judged(seam, candidate, sound_pooled("b")).seats.refused
    assert (refusal.at, refusal.reason) == ("a", "unjudged")
    assert "channels and near misses" in refusal.detail


def test_a_wrong_number_of_one_case_is_said_first(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    seam[0] = replace(seam[0], rel_l2=0.5)
    (refusal,) = judged(seam, candidate, BAD_CHANNEL, sound_pooled("b")).seats.refused
    assert refusal.reason == "scheme"


def test_survivors_state_where_they_are_nearest(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    far = replace(
        sound_pooled("b"),
        worst=(ChannelMetrics(9, 0.0015, 0.0),),
        alternatives=(AlternativeMetrics("x", 0.2, 0.05, 32), AlternativeMetrics("y", 0.9, 0.2, 32)),
    )
    numbers = {one.metric: one for one in judged(seam, candidate, GOOD, far).seats.measured}
    assert numbers["seam.channel"] == Measured("seam.channel", 0.0015, "<=", 0.002, 100, at="b|channel_9#0")
    assert numbers["seam.alternative"] == Measured("seam.alternative", 0.2, "<=", 0.5, 100, at="b|x#0")
    assert numbers["seam.untold"] == Measured("seam.untold", 1.0, "reported", 1.0, 100, at="b|y#0")


def test_nearest_is_by_the_share_of_each_seats_own_limit() -> None:
    one = replace(GOOD, worst=(ChannelMetrics(1, 0.003, 0.0),))
    other = replace(GOOD, seat="b", worst=(ChannelMetrics(2, 0.0015, 0.0),))
    channel, *_ = parity_pooled.worst([(one, replace(LIMITS, slope=0.007)), (other, LIMITS)])
    assert channel.at == "b|channel_2#0"
    exact, *_ = parity_pooled.worst([(one, replace(LIMITS, slope=0.0)), (other, LIMITS)])
    assert exact.at == "b|channel_2#0"
    assert parity_pooled.worst([]) == ()
