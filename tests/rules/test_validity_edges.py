"""Edges of the guards: the number itself still holds, one step beyond it does not, and a breach states its number."""

from __future__ import annotations

import math

import pytest

from pytest_frt.contracts.verdict import Invalid, Measured
from pytest_frt.rules import validity
from pytest_frt.rules.thresholds import CLOCK_ALLOWANCE_S, EMPTY_WORK_S, PRESSURE_SHARE, STEAL_SHARE


def stated(found: Invalid | None, guard: str, *numbers: Measured) -> None:
    assert found is not None
    assert (found.gate, found.guard, found.measured) == ("net_win", guard, numbers)


@pytest.mark.parametrize(
    ("ratio", "op", "limit"),
    [(0.99, "", 0.0), (0.9899, ">=", 0.99), (1.01, "", 0.0), (1.0101, "<=", 1.01), (1.0, "", 0.0)],
    ids=["low_end", "below", "high_end", "above", "one"],
)
@pytest.mark.parametrize("guard", ["canary", "null_arm"])
def test_control_holds_to_its_ends(guard: str, ratio: float, op: str, limit: float) -> None:
    found = validity.control_ratio(guard, [ratio] * 16)
    if op:
        stated(found, guard, Measured(f"{guard}_median", ratio, op, limit, 16))
    else:
        assert found is None


def test_controls_have_their_names() -> None:
    assert (validity.CANARY, validity.NULL_ARM) == ("canary", "null_arm")


@pytest.mark.parametrize(("units", "breached"), [(7, False), (8, True)])
def test_a_drift_counts_from_one_percent_significance_on(units: int, *, breached: bool) -> None:
    found = validity.control_ratio("canary", [1.05] * units)
    assert (found is not None) is breached


@pytest.mark.parametrize("far", [1.05, 0.95])
def test_a_drift_is_significant_against_no_difference(far: float) -> None:
    assert validity.control_ratio("canary", [far] * 5 + [2 - far] * 3) is None


@pytest.mark.parametrize("ratios", [[], [1.0, -1.0], [math.nan] * 9], ids=["none", "negative", "nan"])
def test_a_control_without_ratios_breaches_its_own_guard(ratios: list[float]) -> None:
    stated(validity.control_ratio("null_arm", ratios), "null_arm")


@pytest.mark.parametrize(("apart", "breached"), [(2, False), (3, True)], ids=["a_tenth", "more_than_a_tenth"])
def test_clocks_may_differ_in_a_tenth_of_the_samples(apart: int, *, breached: bool) -> None:
    found = validity.clocks_agree([(0.01, 0.01)] * (20 - apart) + [(0.01, 0.05)] * apart)
    if breached:
        stated(found, "clock", Measured("clock_outliers", 0.15, "<=", 0.1, 20))
    else:
        assert found is None


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("worker", "share"), [(1.0, 0.05), (0.0, 0.0), (0.001, 0.00005)], ids=str)
def test_clocks_agree_to_a_share_and_an_allowance(worker: float, share: float, sign: int) -> None:
    allowed = share + CLOCK_ALLOWANCE_S.value
    assert validity.clocks_agree([(worker, worker + sign * allowed * 0.999)]) is None
    assert validity.clocks_agree([(worker, worker + sign * allowed * 1.001)]) is not None


def test_the_allowance_itself_is_no_difference() -> None:
    assert validity.clocks_agree([(0.0, CLOCK_ALLOWANCE_S.value)]) is None


def test_the_worst_pair_of_clocks_is_told() -> None:
    found = validity.clocks_agree([(0.01, 0.05), (0.01, 0.09), (0.01, 0.07)])
    assert found is not None
    assert found.detail.endswith("worst 0.010000 s against 0.090000 s")
    slower = validity.clocks_agree([(0.06, 0.04), (0.05, 0.01)])
    assert slower is not None
    assert slower.detail.endswith("worst 0.050000 s against 0.010000 s")
    none = validity.clocks_agree([])
    assert none is not None
    assert (none.measured[0].value, none.detail.endswith("worst nan s against nan s")) == (math.inf, True)


@pytest.mark.parametrize("share", [1.0, 0.999], ids=["floor", "below"])
def test_work_takes_at_least_the_floor(share: float) -> None:
    shortest = EMPTY_WORK_S.value * share
    found = validity.does_work([0.01, shortest, 0.02])
    if share < 1:
        stated(found, "empty_work", Measured("shortest_execution_s", shortest, ">=", EMPTY_WORK_S.value, 3))
    else:
        assert found is None


@pytest.mark.parametrize("value", [math.inf, -0.01], ids=str)
def test_work_takes_seconds(value: float) -> None:
    assert validity.does_work([0.01, value]) is not None


@pytest.mark.parametrize(("peak", "breached"), [(8.0, False), (7.99, True)], ids=["allowance", "beyond"])
def test_peak_holds_to_its_allowance(peak: float, *, breached: bool) -> None:
    found = validity.within_peak([2.0, 1.0], 10, peak)
    if breached:
        stated(found, "peak_bandwidth", Measured("implied_bytes_per_s", 10.0, "<=", 1.25 * peak, 2))
    else:
        assert found is None


def test_one_byte_read_is_held_to_the_peak() -> None:
    assert validity.within_peak([1.0], 1, 0.5) is not None
    assert validity.within_peak([1e-9], 0, 1.0) is None
    assert validity.within_peak([math.nan], 0, 1.0) is None
    assert validity.within_peak([1.0], 1, math.inf) is not None


@pytest.mark.parametrize(("alone", "breached"), [(0.98, True), (0.981, False), (1.02, False), (1.021, True)], ids=str)
def test_the_base_interval_reaches_two_percent_around_the_witness(alone: float, *, breached: bool) -> None:
    found = validity.base_is_honest([1.0] * 8, [alone] * 3)
    if breached:
        stated(found, "witness", Measured("base_over_witness", 1.0 / alone, "<=", 1.02, 8))
    else:
        assert found is None


def test_exactly_two_percent_is_still_the_witness() -> None:
    assert validity.base_is_honest([2.0 * (1 + 0.02)] * 8, [2.0] * 3) is None
    assert validity.base_is_honest([2.0 * (1 - 0.02)] * 8, [2.0] * 3) is None


@pytest.mark.parametrize(("base", "witness"), [([], [1.0] * 3), ([0.0] * 8, [1.0] * 3), ([1.0] * 8, [1.0] * 2)])
def test_a_base_without_witnesses_states_no_number(base: list[float], witness: list[float]) -> None:
    stated(validity.base_is_honest(base, witness), "witness")


@pytest.mark.parametrize(("guard", "limit"), [("steal", STEAL_SHARE.value), ("pressure", PRESSURE_SHARE.value)])
@pytest.mark.parametrize("beyond", [0.0, 0.001], ids=["limit", "beyond"])
def test_a_busy_machine_is_told_by_its_number(guard: str, limit: float, beyond: float) -> None:
    values = {"steal": [0.0], "pressure": [0.0], guard: [limit + beyond] * 3}
    found = validity.machine_is_quiet(values["steal"], values["pressure"])
    if beyond:
        stated(found, guard, Measured(guard, limit + beyond, "<=", limit, 3))
    else:
        assert found is None


def test_a_machine_that_counts_no_steal_is_still_held_to_its_pressure() -> None:
    assert validity.machine_is_quiet([], []) is None
    assert validity.machine_is_quiet([], [0.9]) is not None
    assert validity.machine_is_quiet([0.9], []) is not None


@pytest.mark.parametrize("worst", [0.995, 0.9949], ids=["floor", "below"])
def test_outputs_reach_the_floor(worst: float) -> None:
    found = validity.outputs_match([1.0, worst, 0.999], 0.995)
    if worst < 0.995:
        stated(found, "outputs", Measured("timed_output_cosine", worst, ">=", 0.995, 3))
    else:
        assert found is None


def test_a_block_in_one_order_breaches_the_order() -> None:
    stated(validity.both_orders([True, False]), "order")
    assert validity.both_orders(iter([True, True])) is None
