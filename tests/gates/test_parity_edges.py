"""Edges of parity at the seam: limits that hold themselves, who is named, and the numbers that a verdict states."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt.contracts.evidence import CandidateEvidence, Conduct, HostMetrics, ParityEvidence, SeamMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.verdict import Inconclusive, Measured, NotRun, Pass, Refusal, SeatVerdicts
from pytest_frt.gates import parity
from pytest_frt.gates.parity import ParityVerdict, SeatTerms, Terms
from pytest_frt.gates.parity_host import Vacuous
from pytest_frt.rules import seam as rule
from pytest_frt.rules.thresholds import CALIBRATION_SAMPLES, SCALE_SHARE
from tests.gates.conftest import sound_pooled

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.0, "test")
HOST = tuple(
    HostMetrics(index, finite=True, cosine=1.0, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=0.1) for index in range(12)
)
LOW = (replace(HOST[0], cosine=0.1),)


def terms(*, limits: tuple[Limit, ...] = (), weights: str = "", names: str = "ab") -> Terms:
    return Terms({name: SeatTerms(LIMITS, limits, weights) for name in names}, "values", "trained")


def judged(
    seam: list[SeamMetrics], candidate: CandidateEvidence, held: Terms | None = None, **drift: float
) -> ParityVerdict:
    together = tuple(sound_pooled(one) for one in "ab")
    evidence = ParityEvidence(tuple(seam), HOST, LOW, frozen=LOW, probes=HOST[:1], scale_drift=drift, pooled=together)
    return parity.judge(evidence, candidate, held or terms())


def only(verdict: ParityVerdict) -> Refusal:
    (refusal,) = verdict.seats.refused
    assert (refusal.gate, refusal.at) == ("parity", "a")
    return refusal


def words(**counts: int) -> SeatVerdicts:
    refused = [
        Refusal("parity", word, f"{word} {n}", at=f"{word}{n}") for word, count in counts.items() for n in range(count)
    ]
    return SeatVerdicts("parity", (), tuple(refused))


@pytest.mark.parametrize(
    ("seats", "expected"),
    [
        pytest.param(
            words(nan=1, gain=2), Refusal("parity", "gain", "2 of 3 seats: gain 0", at="gain0"), id="commonest"
        ),
        pytest.param(words(), Refusal("parity", "no_seats", "no seat reached this gate"), id="none"),
    ],
)
def test_without_a_survivor_one_refusal_speaks(seats: SeatVerdicts, expected: Refusal) -> None:
    assert ParityVerdict(seats, Pass("parity")).verdict == expected


SEAM, OF_HOST = Measured("seam.slope", 0.0, "<=", 1.0, 1), Measured("host.cosine.worst", 1.0, ">=", 0.9, 1)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (Pass("parity", (OF_HOST,), band="warn"), Pass("parity", (SEAM, OF_HOST), band="warn")),
        (Vacuous("x", (OF_HOST,)), Pass("parity", (SEAM, OF_HOST))),
        (Inconclusive("parity", "x"), Inconclusive("parity", "x")),
    ],
    ids=["pass", "vacuous", "other"],
)
def test_both_levels_state_their_numbers(host: Any, expected: Any) -> None:
    assert ParityVerdict(SeatVerdicts("parity", ("a",), measured=(SEAM,)), host).verdict == expected


def test_the_host_waits_for_refused_seats(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    verdict = judged(seam, replace(candidate, mutated=("a",)))
    assert verdict.host == NotRun("parity", "1 of 2 seats are refused at the seam and were attached")


def test_metrics_of_seats_that_are_not_asked_for_count_for_none(
    seam: list[SeamMetrics], candidate: CandidateEvidence
) -> None:
    verdict = judged([replace(one, finite=one.seat != "b") for one in seam], candidate, terms(names="a"))
    assert (verdict.seats.survivors, verdict.seats.refused) == (("a",), ())


@pytest.mark.parametrize(
    ("field", "reason", "sentence"),
    [
        ("mutated", "input_mutated", "wrote to its input"),
        ("aliased", "aliased_output", "returned a buffer that it wrote again"),
        ("misplaced", "aliased_output", "returned memory that is not its own"),
        ("poison_differing", "poison", "gave other bits under another fill of fresh memory"),
        ("shapes_wrong", "shape", "returned a wrong shape or dtype"),
    ],
)
def test_what_the_worker_saw_is_told_with_its_places(
    seam: list[SeamMetrics], candidate: CandidateEvidence, field: str, reason: str, sentence: str
) -> None:
    spoiled = replace(candidate, **{field: ("a|edge", "b2|edge", "a")})  # type: ignore[arg-type]
    refusal = only(judged(seam, spoiled))
    assert (refusal.reason, refusal.detail) == (reason, f"seat a {sentence}: a|edge; a")


ZEROS = {"slope": 0.0, "rel_l2": 1.0, "candidate_error": 1.0}


@pytest.mark.parametrize(
    ("place", "change", "reason"),
    [
        pytest.param(0, {"finite": False}, "nan", id="real_rows_come_to_nan"),
        pytest.param(0, ZEROS, "zeros", id="real_rows_come_to_nothing"),
        pytest.param(0, {"rel_l2": 0.01}, "nondeterministic", id="real_rows_are_off"),
        pytest.param(1, {"finite": False}, "nondeterministic", id="a_case_comes_to_nan"),
    ],
)
def test_what_comes_to_nothing_is_told_before_its_conduct(
    seam: list[SeamMetrics], candidate: CandidateEvidence, place: int, change: dict[str, Any], reason: str
) -> None:
    restless = Conduct("a", 3, 1.0, carried=False, layouts={}, raised={}, mates=0.0, mates_rows=(1, 1))
    seam[place] = replace(seam[place], **change)
    assert only(judged(seam, replace(candidate, conduct=(restless, *candidate.conduct[1:])))).reason == reason


@pytest.mark.parametrize(
    ("have", "reason"),
    [("w", ""), ("v", "have digest v,"), (None, "have digest unknown,")],
    ids=["same", "other", "none"],
)
def test_host_tensors_are_the_witness_s(
    seam: list[SeamMetrics], candidate: CandidateEvidence, have: str | None, reason: str
) -> None:
    held = {"b": "w"} | ({"a": have} if have else {})
    verdict = judged(seam, replace(candidate, weights=held), terms(weights="w"))
    if reason:
        refusal = only(verdict)
        assert refusal.reason == "host_written"
        assert reason in refusal.detail
    else:
        assert verdict.seats.refused == ()


def test_host_tensors_that_nobody_digested_are_left_uncompared(
    seam: list[SeamMetrics], candidate: CandidateEvidence
) -> None:
    assert judged(seam, replace(candidate, weights={"a": "v"})).seats.refused == ()


def calibrated(candidate: CandidateEvidence, samples: float) -> CandidateEvidence:
    facts: Any = SimpleNamespace(samples=samples)
    return replace(candidate, calibration=facts)


@pytest.mark.parametrize("factor", [1.0, 1.001, math.nan], ids=["limit", "beyond", "nan"])
def test_scales_drift_by_rounding_only(seam: list[SeamMetrics], candidate: CandidateEvidence, factor: float) -> None:
    drift = SCALE_SHARE.value * factor
    verdict = judged(seam, calibrated(candidate, CALIBRATION_SAMPLES.value), a=drift)
    if factor == 1.0:
        assert verdict.seats.refused == ()
    else:
        refusal = only(verdict)
        assert refusal.reason == "calibration"
        (number,) = refusal.measured
        assert (number.metric, number.op, number.required, number.n) == ("scale_drift", "<=", SCALE_SHARE.value, 1)


@pytest.mark.parametrize("short", [0, 1])
def test_static_scales_need_their_samples(seam: list[SeamMetrics], candidate: CandidateEvidence, short: int) -> None:
    count = CALIBRATION_SAMPLES.value - short
    verdict = judged(seam, calibrated(candidate, count), a=0.0)
    if short:
        refusal = only(verdict)
        number = Measured("calibration_samples", count, ">=", CALIBRATION_SAMPLES.value, count, at="a")  # type: ignore[arg-type]
        assert (refusal.reason, refusal.measured) == ("calibration", (number,))
    else:
        assert verdict.seats.refused == ()
    assert only(judged(seam, replace(candidate, calibration=None), a=0.0)).measured[0].value == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"rows": 1}, "", id="one_row"),
        pytest.param({"rows": 0}, "compared on no real activations", id="no_row"),
        pytest.param(
            {"rows": 0, "mismatch": "(1,) for reference (2,)", "finite": False}, "output 0: (1,) for", id="shape"
        ),
    ],
)
def test_real_inputs_have_rows(
    seam: list[SeamMetrics], candidate: CandidateEvidence, change: dict[str, Any], reason: str
) -> None:
    seam[0] = replace(seam[0], **change)
    verdict = judged(seam, candidate)
    assert (reason in only(verdict).detail) if reason else verdict.seats.refused == ()


def test_a_seat_without_cases_says_so(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    kept = [one for one in seam if one.seat == "b" or one.case == "real"]
    assert only(judged(kept, candidate)).detail == "seat a was compared on no discriminating cases"


def test_a_refusal_states_every_number_over_its_limit(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    seam[1] = replace(seam[1], row_rel_l2=0.5, output=1)
    seam[2] = replace(seam[2], rel_l2=0.01)
    refusal = only(judged(seam, candidate))
    assert refusal.reason == "scheme"
    assert refusal.detail == "seat a, ramp, output 0: seam.rel_l2 0.01 (needs <= 0.008) (2 of 3 comparisons)"
    assert refusal.measured == (
        Measured("seam.row_rel_l2", 0.5, "<=", 0.02, 8192, at="a|edge#1"),
        Measured("seam.rel_l2", 0.01, "<=", 0.008, 8192, at="a|ramp#0"),
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"finite": False}, "NaN or Inf where the reference is finite"),
        ({"slope": 0.0, "rel_l2": 1.0, "candidate_error": 1.0}, "the output is zero or near: seam."),
        ({"mismatch": "(1,) for reference (2,)"}, "(1,) for reference (2,) (1 of 3"),
    ],
    ids=["nan", "zeros", "shape"],
)
def test_some_words_have_a_sentence(
    seam: list[SeamMetrics], candidate: CandidateEvidence, change: dict[str, Any], words: str
) -> None:
    seam[2] = replace(seam[2], **change)
    assert words in only(judged(seam, candidate)).detail


def test_a_structure_limit_states_its_own_number(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    limits = (Limit("repeat", "<=", 1e-6, "of conduct"), Limit("cosine", ">=", 0.99995, "test"))
    seam[3] = replace(seam[3], cosine=0.99995)
    refusal = only(judged(seam, candidate, terms(limits=limits)))
    assert (refusal.reason, refusal.measured) == (
        "limit",
        (Measured("cosine", 0.9999, ">=", 0.99995, 8192, at="a|real#0"),),
    )


def test_survivors_state_where_they_are_nearest_their_limits(
    seam: list[SeamMetrics], candidate: CandidateEvidence
) -> None:
    seam[0] = replace(seam[0], candidate_error=0.013, elements=0)
    seam[1] = replace(seam[1], rel_l2=0.0079)
    seam[2] = replace(seam[2], candidate_error=0.0135)
    seam[3] = replace(seam[3], row_rel_l2=0.019, candidate_error=0.01, elements=100)
    numbers = {number.metric: number for number in judged(seam, candidate).seats.measured}
    pooled = ("channel", "alternative", "untold")
    assert set(numbers) == {*(f"seam.{name}" for name in (*rule.REASONS, *pooled)), "seam.sqnr_db"}
    assert numbers["seam.rel_l2"] == Measured("seam.rel_l2", 0.0079, "<=", 0.008, 8192, at="a|edge#0")
    assert numbers["seam.row_rel_l2"].at == "b|real#0"
    assert numbers["seam.outliers"] == Measured("seam.outliers", 0.0, "<=", 0.0, 0, at="a|real#0")
    assert numbers["seam.sqnr_db"] == Measured(
        "seam.sqnr_db", pytest.approx(40.0), "reported", pytest.approx(40.0), 100, at="b|real#0"
    )


@pytest.mark.parametrize(
    ("outliers", "rel_l2", "nearest"),
    [(0.001, 0.004, "ba"), (0.0, 0.004, "aa"), (0.0, 0.048, "ab")],
    ids=["a_budget_in_use", "no_outlier", "nearer_its_own_limit"],
)
def test_nearest_is_by_the_share_of_each_seats_own_limit(
    seam: list[SeamMetrics], candidate: CandidateEvidence, outliers: float, rel_l2: float, nearest: str
) -> None:
    wide = replace(LIMITS, rel_l2=0.08, outliers=0.01)
    held = replace(terms(), seats={"a": SeatTerms(LIMITS), "b": SeatTerms(wide)})
    seam[0] = replace(seam[0], rel_l2=0.004)
    seam[3] = replace(seam[3], rel_l2=rel_l2, outliers=outliers)
    numbers = {number.metric: number for number in judged(seam, candidate, held).seats.measured}
    assert numbers["seam.outliers"].at[0] + numbers["seam.rel_l2"].at[0] == nearest


def test_nothing_is_stated_of_seats_that_did_not_survive(seam: list[SeamMetrics], candidate: CandidateEvidence) -> None:
    spoiled = [replace(one, finite=False) for one in seam]
    assert judged(spoiled, candidate).seats.measured == ()
