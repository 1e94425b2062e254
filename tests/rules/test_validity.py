"""Each guard: what it lets pass, what it voids, and that no NaN slips through."""

from __future__ import annotations

import math

import pytest

from pytest_frt.contracts.verdict import Invalid
from pytest_frt.rules import validity

STEADY = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0]


@pytest.mark.parametrize("guard", [validity.CANARY, validity.NULL_ARM])
@pytest.mark.parametrize(
    ("ratios", "breached"),
    [
        pytest.param(STEADY * 4, False, id="steady"),
        pytest.param([1.02] * 16, True, id="base_slower"),
        pytest.param([0.98] * 16, True, id="candidate_slower"),
        pytest.param([1.005] * 80, False, id="significant_and_small"),
        pytest.param([1.03, 0.96] * 8, False, id="large_and_noise"),
        pytest.param([1.02] * 6, False, id="too_few_to_be_significant"),
        pytest.param([*STEADY, math.nan], True, id="nan"),
        pytest.param([*STEADY, math.inf], True, id="inf"),
        pytest.param([*STEADY, 0.0], True, id="zero"),
        pytest.param([], True, id="none"),
    ],
)
def test_control(guard: str, ratios: list[float], *, breached: bool) -> None:
    verdict = validity.control_ratio(guard, ratios)
    assert (verdict is not None) is breached
    assert verdict is None or verdict.guard == guard


@pytest.mark.parametrize(
    ("samples", "breached"),
    [
        pytest.param([(0.010, 0.0103)] * 20, False, id="pipe_overhead"),
        pytest.param([(0.010, 0.012)] * 20, True, id="worker_hides_work"),
        pytest.param([(0.012, 0.010)] * 20, True, id="worker_claims_more"),
        pytest.param([(0.010, 0.0103)] * 19 + [(0.010, 0.050)], False, id="one_delayed"),
        pytest.param([(0.010, 0.0103)] * 17 + [(0.010, 0.050)] * 3, True, id="too_many_delayed"),
        pytest.param([(0.0, 0.010)] * 20, True, id="timer_stopped"),
        pytest.param([(math.nan, 0.010)] * 20, True, id="nan"),
        pytest.param([], True, id="none"),
    ],
)
def test_clocks(samples: list[tuple[float, float]], *, breached: bool) -> None:
    verdict = validity.clocks_agree(samples)
    assert isinstance(verdict, Invalid) is breached


@pytest.mark.parametrize(
    ("seconds", "breached"),
    [
        pytest.param([0.01] * 9, False, id="work"),
        pytest.param([0.01] * 9 + [8e-9], True, id="empty_graph"),
        pytest.param([0.01, 0.0], True, id="zero"),
        pytest.param([0.01, math.nan], True, id="nan"),
        pytest.param([], True, id="none"),
    ],
)
def test_work(seconds: list[float], *, breached: bool) -> None:
    assert isinstance(validity.does_work(seconds), Invalid) is breached


@pytest.mark.parametrize(
    ("seconds", "read", "peak", "breached"),
    [
        pytest.param([0.010] * 9, 10**8, 2e10, False, id="half_the_peak"),
        pytest.param([0.010] * 9, 10**8, 9e9, False, id="within_the_allowance"),
        pytest.param([0.010] * 9, 10**8, 7e9, True, id="faster_than_memory"),
        pytest.param([0.010] * 9 + [0.001], 10**8, 2e10, True, id="one_execution_read_nothing"),
        pytest.param([0.010] * 9 + [math.nan], 10**8, 2e10, True, id="nan"),
        pytest.param([0.010] * 9 + [0.0], 10**8, 2e10, True, id="zero"),
        pytest.param([], 10**8, 2e10, True, id="none"),
        pytest.param([0.010] * 9, 10**8, math.nan, True, id="nan_peak"),
        pytest.param([1e-9] * 9, 0, 2e10, False, id="arm_reads_no_weights"),
        pytest.param([1e-9] * 9, 10**8, 0.0, False, id="peak_unknown"),
    ],
)
def test_peak(seconds: list[float], read: int, peak: float, *, breached: bool) -> None:
    verdict = validity.within_peak(seconds, read, peak)
    assert (verdict.guard if verdict else "") == ("peak_bandwidth" if breached else "")


BASE = [0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0100, 0.0098, 0.0100]


@pytest.mark.parametrize(
    ("base", "witness", "breached"),
    [
        pytest.param(BASE, [0.0100] * 3, False, id="same"),
        pytest.param(BASE, [0.0103] * 3, False, id="within_two_percent_of_the_range"),
        pytest.param([s * 1.1 for s in BASE], [0.0100] * 3, True, id="impl_slows_the_base"),
        pytest.param(BASE, [0.0112] * 3, True, id="witness_slower"),
        pytest.param(BASE, [0.0100, 0.0100, 0.5], False, id="one_disturbed_witness"),
        pytest.param(BASE, [0.0100] * 2, True, id="two_witnesses"),
        pytest.param(BASE, [], True, id="no_witness"),
        pytest.param([*BASE[1:], math.nan], [0.0100] * 3, True, id="nan_base"),
        pytest.param(BASE, [0.0100, 0.0100, math.nan], True, id="nan_witness"),
    ],
)
def test_base(base: list[float], witness: list[float], *, breached: bool) -> None:
    assert isinstance(validity.base_is_honest(base, witness), Invalid) is breached


@pytest.mark.parametrize(
    ("steal", "pressure", "guard"),
    [
        pytest.param([0.0] * 8, [0.1] * 8, "", id="quiet"),
        pytest.param([0.0] * 7 + [0.9], [0.9] + [0.1] * 7, "", id="one_bad_process"),
        pytest.param([0.2] * 8, [0.1] * 8, "steal", id="hypervisor"),
        pytest.param([0.0] * 8, [0.9] * 8, "pressure", id="neighbours"),
        pytest.param([math.nan] + [0.0] * 7, [0.1] * 8, "steal", id="nan_steal"),
        pytest.param([0.0] * 8, [math.nan] + [0.1] * 7, "pressure", id="nan_pressure"),
    ],
)
def test_machine(steal: list[float], pressure: list[float], guard: str) -> None:
    verdict = validity.machine_is_quiet(steal, pressure)
    assert (verdict.guard if verdict else "") == guard


@pytest.mark.parametrize(
    ("cosines", "breached"),
    [
        pytest.param([1.0] * 8, False, id="same"),
        pytest.param([1.0] * 7 + [0.9], True, id="replayed_outputs"),
        pytest.param([1.0] * 7 + [math.nan], True, id="nan_last"),
        pytest.param([math.nan] + [1.0] * 7, True, id="nan_first"),
        pytest.param([], True, id="none"),
    ],
)
def test_outputs(cosines: list[float], *, breached: bool) -> None:
    assert isinstance(validity.outputs_match(cosines, 0.995), Invalid) is breached


@pytest.mark.parametrize(("flags", "breached"), [([True] * 10, False), ([True] * 9 + [False], True)])
def test_orders(flags: list[bool], *, breached: bool) -> None:
    assert isinstance(validity.both_orders(flags), Invalid) is breached
