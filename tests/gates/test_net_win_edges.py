"""Edges of the net-win gate: limits that do not count themselves, what may be left out, numbers of a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.contracts.verdict import Inconclusive, Invalid, Measured, Pass, Refusal, Verdict
from pytest_frt.gates import net_win

BASE_S = 0.032


def block(speed: float, *, base: float = BASE_S, by_judge: float = 0.0) -> tuple[TimedPair, TimedPair]:
    """Two pairs in both orders; ``by_judge`` is the speed that the judge's clock sees, the same by default."""
    fast = TimedSample("fast", 0, base / speed, base / (by_judge or speed), 0.002)
    pair = TimedPair(TimedSample("base", 0, base, base, 0.002), fast, base_first=True)
    return pair, replace(pair, base_first=False)


def evidence(
    *speeds: float, processes: int = 8, quick: bool = False, base: float = BASE_S, by_judge: float = 0.0
) -> TimingEvidence:
    """Every process gives one unit at each speed."""
    blocks = tuple(block(speed, base=base, by_judge=by_judge) for speed in speeds)
    one = ProcessTiming(0, blocks, block(1.0) * 2, output_mismatch=1.0, steal_s=0.0, pressure=0.1, wall_s=5.0)
    timed = tuple(replace(one, process=index) for index in range(processes))
    return TimingEvidence(timed, (BASE_S,) * 3, 1, quick=quick)


QUICK = evidence(1.25, 1.25, 1.25, 1.25, processes=3, quick=True)


def guard(verdict: Verdict | None) -> str:
    return verdict.guard if isinstance(verdict, Invalid) else ""


@pytest.mark.parametrize(("null", "expected"), [((), ""), (block(1.25) * 8, "null_arm")], ids=["left_out", "drifts"])
def test_the_quick_form_may_leave_out_its_null_arm_and_holds_the_one_it_has(
    null: tuple[TimedPair, ...], expected: str
) -> None:
    timed = tuple(replace(one, null=null) for one in QUICK.processes)
    assert guard(net_win.judge(replace(QUICK, processes=timed), output="values")) == expected


@pytest.mark.parametrize(
    ("witness", "expected"), [((), ""), ((BASE_S,) * 2, "witness"), ((BASE_S,) * 3, "")], ids=["none", "two", "three"]
)
def test_the_quick_form_may_leave_out_its_witnesses_and_holds_the_ones_it_has(
    witness: tuple[float, ...], expected: str
) -> None:
    assert guard(net_win.judge(replace(QUICK, witness_base_s=witness), output="values")) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(replace(QUICK, witness_base_s=(BASE_S / 1.3,) * 3), "", id="witnesses_of_the_interval"),
        pytest.param(replace(evidence(1.25, 1.25, 1.25), witness_base_s=(BASE_S / 1.3,) * 3), "witness", id="full"),
    ],
)
def test_three_starts_give_no_interval_to_hold_a_base_to(changed: TimingEvidence, expected: str) -> None:
    assert guard(net_win.judge(changed, output="values")) == expected


@pytest.mark.parametrize(("output", "cosine", "expected"), [("values", 0.96, "outputs"), ("distribution", 0.96, "")])
def test_outputs_reach_the_band_of_their_kind(output: str, cosine: float, expected: str) -> None:
    sound = evidence(1.25, 1.25, 1.25)
    timed = tuple(replace(one, output_mismatch=cosine) for one in sound.processes)
    assert guard(net_win.judge(replace(sound, processes=timed), output=output)) == expected


@pytest.mark.parametrize(("repeats", "expected"), [(5, ""), (10, "peak_bandwidth")])
def test_memory_is_read_once_per_execution(repeats: int, expected: str) -> None:
    fed = replace(evidence(1.25, 1.25, 1.25), repeats=repeats, bytes_read=10**8, peak_bytes_s=2e10)
    assert guard(net_win.judge(fed, output="values")) == expected


def test_a_win_by_the_workers_clock_alone_keeps_its_numbers() -> None:
    verdict = net_win.judge(evidence(1.03, 1.03, 1.03, by_judge=1.015), output="values")
    assert isinstance(verdict, Inconclusive)
    assert verdict.gate == "net_win"
    assert verdict.measured[0] == Measured("pooled_median", 1.03, ">", 1.02, 24)


@pytest.mark.parametrize(("later", "holds"), [(1.02, False), (1.021, True)], ids=["at_the_margin", "above_it"])
def test_a_pass_of_an_early_look_holds_over_every_unit(later: float, *, holds: bool) -> None:
    verdict = net_win.judge(evidence(1.25, 1.25, 1.25, *[later] * 7), output="values")
    assert isinstance(verdict, Pass) is holds
    if isinstance(verdict, Inconclusive):
        assert verdict.measured[0] == Measured("pooled_median_of_all", 1.02, ">", 1.02, 80)
        assert verdict.measured[1].metric == "pooled_median"


def test_a_pass_must_beat_a_base_that_met_no_impl() -> None:
    slow = evidence(1.03, 1.03, 1.03, base=BASE_S * 1.02)
    verdict = net_win.judge(slow, output="values")
    assert isinstance(verdict, Inconclusive)
    (number,) = verdict.measured
    assert number == Measured("witness_over_candidate", pytest.approx(1.03 / 1.02), ">", 1.02, 8)
    at = replace(evidence(1.03, 1.03, 1.03), witness_base_s=(BASE_S / 1.03 * 1.02,) * 3)
    assert isinstance(net_win.judge(at, output="values"), Inconclusive)
    above = replace(at, witness_base_s=(BASE_S / 1.03 * 1.0201,) * 3)
    assert isinstance(net_win.judge(above, output="values"), Pass)


@pytest.mark.parametrize(
    ("collected", "expected"),
    [
        pytest.param(QUICK, Pass, id="quick_passes"),
        pytest.param(evidence(1.25, 1.25, 1.25, processes=3, quick=True), type(None), id="quick_takes_four_units"),
        pytest.param(evidence(1.25, 1.25, 1.25, 1.25, processes=3), type(None), id="the_full_rule_takes_eight_starts"),
        pytest.param(evidence(0.9, 0.9, 0.9), Refusal, id="a_loss_of_both_clocks"),
        pytest.param(evidence(0.99, 0.99, 0.99, by_judge=1.0), Refusal, id="a_loss_needs_no_other_clock"),
        pytest.param(evidence(1.25, 1.25, 1.25, by_judge=1.01), type(None), id="undecided_by_the_judge"),
        pytest.param(evidence(1.25, 1.25, 1.25, by_judge=0.9), Invalid, id="clocks_apart"),
    ],
)
def test_collection_stops_where_both_clocks_tell(collected: TimingEvidence, expected: type[Verdict]) -> None:
    assert isinstance(net_win.decide(collected, output="values"), expected)


@pytest.mark.parametrize("attempt", [1, 2, 4])
def test_an_attempt_and_a_family_have_their_own_bounds(attempt: int) -> None:
    late = replace(evidence(1.25, 1.25, 1.25), attempt=attempt)
    found = net_win.judge(late, output="values")
    assert guard(found) == ("attempts" if attempt == 4 else "")
    assert guard(net_win.decide(late, output="values")) == guard(found)
    assert net_win.decide(replace(late, alpha=1e-9), output="values") == (found if attempt == 4 else None)
