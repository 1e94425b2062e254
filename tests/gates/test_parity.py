"""Parity: planted faults at the seam take one seat, planted faults of the host refuse the record."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_frt.contracts.evidence import CandidateEvidence, Conduct, HostMetrics, ParityEvidence, SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.verdict import NotRun, Pass, Refusal
from pytest_frt.errors import SpecError
from pytest_frt.gates import parity
from pytest_frt.gates.parity import ParityVerdict, SeatTerms, Terms, Vacuous
from tests.gates.conftest import sound_pooled

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
TERMS = Terms(seats={"a": SeatTerms(LIMITS), "b": SeatTerms(LIMITS)}, output="values", weights="trained")
RANDOM = replace(TERMS, weights="random")
GOOD = HostMetrics(sample=0, finite=True, cosine=0.9999, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=0.1)
HOST = tuple(replace(GOOD, sample=index) for index in range(12))
ZEROED = (replace(GOOD, cosine=0.3), replace(GOOD, cosine=0.4))
FROZEN = (replace(GOOD, cosine=0.9),)
PROBES = (GOOD, replace(GOOD, sample=1, cosine=0.996))


def judged(
    seam: list[SeamMetrics],
    candidate: CandidateEvidence,
    *,
    terms: Terms = TERMS,
    host: tuple[HostMetrics, ...] = HOST,
    zeroed: tuple[HostMetrics, ...] = ZEROED,
    frozen: tuple[HostMetrics, ...] = FROZEN,
    probes: tuple[HostMetrics, ...] = PROBES,
    spread: tuple[HostMetrics, ...] = (),
) -> ParityVerdict:
    together = tuple(sound_pooled(seat) for seat in ("a", "b"))
    evidence = ParityEvidence(tuple(seam), host, zeroed, frozen=frozen, probes=probes, spread=spread, pooled=together)
    return parity.judge(evidence, candidate, terms)


def test_sound_seats_and_host(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    verdict = judged(seam, candidate)
    assert verdict.seats.survivors == ("a", "b")
    assert isinstance(verdict.verdict, Pass)
    names = {number.metric for number in verdict.verdict.measured}
    assert {"seam.slope", "seam.rel_l2", "host.cosine.median", "host.cosine.worst"} <= names


SPOILS: dict[str, tuple[dict[str, float | bool | str], str]] = {
    "nan": ({"finite": False}, "nan"),
    "nan_metric": ({"rel_l2": math.nan}, "scheme"),
    "nan_slope": ({"slope": math.nan}, "gain"),
    "zeros": ({"slope": 0.0, "rel_l2": 1.0, "candidate_error": 1.0}, "zeros"),
    "gain": ({"slope": 1.01, "rel_l2": 0.0102, "candidate_error": 0.012}, "gain"),
    "reference": ({"candidate_error": 0.5}, "reference"),
    "scheme": ({"rel_l2": 0.01}, "scheme"),
    "rows": ({"row_rel_l2": 0.5}, "rows"),
    "outliers": ({"max_abs": 0.3, "outliers": 0.001}, "outliers"),
    "shape": ({"finite": False, "mismatch": "(8, 3) for reference (8, 4)"}, "shape"),
}


@pytest.mark.parametrize(("change", "reason"), SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("place", [0, 2], ids=["on_real_rows", "in_a_case"])
def test_a_spoiled_number_refuses_its_seat_alone(
    seam: list[SeamMetrics],
    candidate: CandidateEvidence,
    change: dict[str, float | bool | str],
    reason: str,
    place: int,
) -> None:
    seam[place] = replace(seam[place], **change)  # type: ignore[arg-type]
    verdict = judged(seam, candidate)
    assert verdict.seats.survivors == ("b",)
    assert [(refusal.at, refusal.reason) for refusal in verdict.seats.refused] == [("a", reason)]
    assert seam[place].case in verdict.seats.refused[0].detail


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"mutated": ("a|edge",)}, "input_mutated", id="input_mutated"),
        pytest.param({"aliased": ("a",)}, "aliased_output", id="buffer_reused"),
        pytest.param({"misplaced": ("a|real: an output lies in the input's memory",)}, "aliased_output", id="input"),
        pytest.param({"poison_differing": ("a",)}, "poison", id="uninitialised_memory"),
        pytest.param({"shapes_wrong": ("a|edge: (8, 3) float16",)}, "shape", id="wrong_dtype"),
    ],
)
def test_what_the_worker_saw_refuses_its_seat_alone(
    seam: list[SeamMetrics], candidate: CandidateEvidence, change: dict[str, tuple[str, ...]], reason: str
) -> None:
    verdict = judged(seam, replace(candidate, **change))  # type: ignore[arg-type]
    assert verdict.seats.survivors == ("b",)
    assert [refusal.reason for refusal in verdict.seats.refused] == [reason]


def test_a_seat_id_that_starts_like_another_is_another(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    assert judged(seam, replace(candidate, mutated=("ab|edge",))).seats.survivors == ("a", "b")


@pytest.mark.parametrize("case", ["real", "edge"], ids=["no_real_rows", "no_cases"])
def test_a_seat_without_evidence_is_unjudged(seam: list[SeamMetrics], candidate: CandidateEvidence, case: str) -> None:
    kept = [one for one in seam if one.seat == "b" or (one.case == "real") is (case != "real")]
    verdict = judged(kept, candidate)
    assert [(refusal.at, refusal.reason) for refusal in verdict.seats.refused] == [("a", "unjudged")]


def test_a_seat_whose_conduct_nobody_tried_is_unjudged(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    (refusal,) = judged(seam, replace(candidate, conduct=candidate.conduct[1:])).seats.refused
    assert (refusal.at, refusal.reason) == ("a", "unjudged")
    assert "repeated runs and layouts" in refusal.detail


def test_the_word_that_explains_most_is_said(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    seam[0] = replace(seam[0], row_rel_l2=0.5)
    seam[1] = replace(seam[1], finite=False)
    refusal = judged(seam, candidate).seats.refused[0]
    assert refusal.reason == "nan"
    assert "2 of 3" in refusal.detail


def test_a_structure_limit_holds_on_real_rows_only(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    limit = Limit("cosine", ">=", 0.99995, "test")
    terms = replace(TERMS, seats={"a": SeatTerms(LIMITS, (limit,)), "b": SeatTerms(LIMITS)})
    assert [r.reason for r in judged(seam, candidate, terms=terms).seats.refused] == ["limit"]
    seam[0] = replace(seam[0], cosine=1.0)
    assert judged(seam, candidate, terms=terms).seats.survivors == ("a", "b")
    seam[0] = replace(seam[0], cosine=math.nan)
    assert judged(seam, candidate, terms=terms).seats.survivors == ("b",)


@pytest.mark.parametrize("metric", ["sqnr", "seat", "finite"])
def test_a_limit_on_what_is_not_measured_is_an_error(
    seam: list[SeamMetrics], candidate: CandidateEvidence, metric: str
) -> None:
    terms = replace(TERMS, seats={"a": SeatTerms(LIMITS, (Limit(metric, ">=", 1.0, "test"),))})
    with pytest.raises(SpecError, match=metric):
        judged(seam, candidate, terms=terms)


def test_the_host_is_not_judged_with_refused_seats_attached(
    seam: list[SeamMetrics], candidate: CandidateEvidence
) -> None:
    verdict = judged(seam, replace(candidate, mutated=("a|real",)))
    assert isinstance(verdict.host, NotRun)
    assert isinstance(verdict.verdict, NotRun)


def test_without_a_survivor_the_commonest_word_refuses(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    spoiled = [replace(one, finite=False) for one in seam]
    verdict = judged(spoiled, candidate).verdict
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "nan"
    assert isinstance(judged(seam, candidate, terms=replace(TERMS, seats={})).verdict, Refusal)


@pytest.mark.parametrize(
    ("host", "zeroed", "reason"),
    [
        pytest.param((*HOST[1:], replace(GOOD, cosine=0.9)), ZEROED, "host_band", id="one_sample_too_low"),
        pytest.param((*HOST[1:], replace(GOOD, finite=False)), ZEROED, "nan", id="nan_output"),
        pytest.param((*HOST[1:], replace(GOOD, cosine=math.nan)), ZEROED, "nan", id="nan_metric"),
        pytest.param(HOST[:11], ZEROED, "few_samples", id="eleven_samples"),
        pytest.param((), ZEROED, "few_samples", id="no_samples"),
        pytest.param(HOST, (ZEROED[0], replace(GOOD, cosine=0.997)), "vacuous_control", id="control_stays"),
        pytest.param(HOST, (), "no_control", id="no_control"),
    ],
)
def test_host_refusal(
    seam: list[SeamMetrics],
    candidate: CandidateEvidence,
    host: tuple[HostMetrics, ...],
    zeroed: tuple[HostMetrics, ...],
    reason: str,
) -> None:
    verdict = judged(seam, candidate, host=host, zeroed=zeroed)
    assert verdict.seats.survivors == ("a", "b")
    assert isinstance(verdict.verdict, Refusal)
    assert verdict.verdict.reason == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"frozen": ()}, "no_control", id="no_frozen_control"),
        pytest.param({"frozen": (replace(GOOD, cosine=0.9951),)}, "vacuous_control", id="frozen_seats_look_right"),
        pytest.param({"frozen": (replace(GOOD, cosine=math.nan),)}, "vacuous_control", id="frozen_without_a_number"),
        pytest.param({"probes": ()}, "no_control", id="nothing_followed"),
        pytest.param({"probes": (GOOD, replace(GOOD, cosine=0.99))}, "stale", id="second_observation_wrong"),
        pytest.param({"probes": (replace(GOOD, finite=False),)}, "nan", id="nan_after_the_samples"),
        pytest.param({"spread": (replace(GOOD, cosine=math.nan),)}, "nan", id="spread_without_a_number"),
    ],
)
def test_controls_and_probes_refuse(
    seam: list[SeamMetrics], candidate: CandidateEvidence, change: dict[str, tuple[HostMetrics, ...]], reason: str
) -> None:
    verdict = judged(seam, candidate, **change).verdict  # type: ignore[arg-type]
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason
    assert isinstance(judged(seam, candidate).verdict, Pass)


def test_the_witness_s_own_spread_widens_what_the_worst_must_reach(
    seam: list[SeamMetrics], candidate: CandidateEvidence
) -> None:
    far = replace(GOOD, cosine=0.98)
    assert isinstance(judged(seam, candidate, host=(*HOST[1:], far)).verdict, Refusal)
    verdict = judged(seam, candidate, host=(*HOST[1:], far), spread=(replace(GOOD, cosine=0.97), GOOD)).verdict
    assert isinstance(verdict, Pass)
    assert {one.metric: one.value for one in verdict.measured}["host.cosine.two_seed_spread"] == 0.97


def test_what_decides_nothing_is_stated(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    conduct = Conduct("a", 3, 0.0, carried=False, layouts={}, raised={}, mates=0.25, mates_rows=(1, 8))
    seam[3] = replace(seam[3], candidate_error=0.006)
    verdict = judged(seam, replace(candidate, conduct=(conduct, *candidate.conduct[1:]))).verdict
    assert isinstance(verdict, Pass)
    stated = {one.metric: one.value for one in verdict.measured if one.op == "reported"}
    assert stated == {
        "seam.sqnr_db": pytest.approx(-20 * math.log10(0.006)),
        "seam.batch_mates": 0.25,
        "seam.untold": 0.0,
        "host.cosine.in_sample_gap": pytest.approx((0.9999 + 0.996) / 2 - 0.9999),
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"repeat": 1e-9}, "nondeterministic", id="not_repeatable"),
        pytest.param({"repeat": 1e-9, "carried": True}, "stale", id="carried_over"),
        pytest.param({"layouts": {"sliced": 0.5}}, "layout", id="wrong_when_sliced"),
    ],
)
def test_conduct_refuses_its_seat_alone(
    seam: list[SeamMetrics], candidate: CandidateEvidence, change: dict[str, Any], reason: str
) -> None:
    sound = Conduct("a", 3, 0.0, carried=False, layouts={}, raised={}, mates=0.0, mates_rows=(1, 8))
    found = (replace(sound, **change), replace(sound, seat="b"))
    verdict = judged(seam, replace(candidate, conduct=found))
    assert [(refusal.at, refusal.reason) for refusal in verdict.seats.refused] == [("a", reason)]


def test_a_host_in_the_warn_band_says_so(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    verdict = judged(seam, candidate, host=(*HOST[1:], replace(GOOD, cosine=0.996))).verdict
    assert isinstance(verdict, Pass)
    assert verdict.band == "warn"


def test_random_weights_neither_pass_nor_fail_the_host(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    bad = tuple(replace(one, cosine=0.1) for one in HOST)
    verdict = judged(seam, candidate, terms=RANDOM, host=bad, zeroed=(replace(GOOD, cosine=0.9999),))
    assert isinstance(verdict.host, Vacuous)
    assert isinstance(verdict.verdict, Pass)
    assert verdict.verdict.band == "pass"


@pytest.mark.parametrize(
    ("host", "zeroed", "reason"),
    [
        pytest.param((replace(GOOD, finite=False),), (), "nan", id="nan_output"),
        pytest.param(HOST, (replace(GOOD, max_abs=0.0),), "vacuous_control", id="dead_seats"),
    ],
)
def test_random_weights_still_refuse(
    seam: list[SeamMetrics],
    candidate: CandidateEvidence,
    host: tuple[HostMetrics, ...],
    zeroed: tuple[HostMetrics, ...],
    reason: str,
) -> None:
    verdict = judged(seam, candidate, terms=RANDOM, host=host, zeroed=zeroed).verdict
    assert isinstance(verdict, Refusal)
    assert verdict.reason == reason
