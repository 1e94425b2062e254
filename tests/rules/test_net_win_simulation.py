"""FRT-NW-1 and its mutants on simulated noise: seeds are fixed, counts are small and still decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_frt.contracts.verdict import Pass
from pytest_frt.rules.net_win import BY_ATTEMPT, FIRST, Rule, decide

Simulate = Callable[..., Any]
ENVIRONMENTS = ("quiet", "typical", "rough")


def passes(rule: Rule, units: Any) -> int:
    return sum(isinstance(decide(rule, run), Pass) for run in units.tolist())


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_effect_never_activates(simulate: Simulate, environment: str) -> None:
    assert passes(FIRST, simulate(environment, 1.00, runs=1500, seed=20)) == 0


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_margin_itself_activates_at_most_one_in_a_hundred(simulate: Simulate, environment: str) -> None:
    assert 0 < passes(FIRST, simulate(environment, 1.02, runs=2500, seed=21)) <= 25


@pytest.mark.parametrize(("environment", "power"), [("quiet", 0.95), ("typical", 0.95), ("rough", 0.80)])
def test_five_percent_is_seen(simulate: Simulate, environment: str, power: float) -> None:
    assert passes(FIRST, simulate(environment, 1.05, runs=300, seed=22)) >= 300 * power


def test_mutant_fixed_order_mistakes_order_bias_for_a_win(simulate: Simulate) -> None:
    biased = simulate("typical", 1.02, runs=300, seed=23, fixed_order=True)
    assert passes(FIRST, biased) > 300 * 0.3


def test_mutant_one_process_mistakes_its_start_for_a_win(simulate: Simulate) -> None:
    single = simulate("typical", 1.02, runs=600, seed=24, processes=1, units=80).reshape(600, 8, 10)
    assert passes(FIRST, single) > 600 * 0.03


@pytest.mark.parametrize("environment", ["quiet", "typical"])
def test_mutant_five_percent_at_each_look_spends_too_much(simulate: Simulate, environment: str) -> None:
    raw = replace(FIRST, bounds=(17, 31, 48))  # the smallest counts with a tail of at most .05 at each look alone
    assert passes(raw, simulate(environment, 1.02, runs=600, seed=25)) > 600 * 0.03


def test_mutant_inverted_ratio_activates_a_loss(simulate: Simulate) -> None:
    slower = simulate("typical", 0.95, runs=50, seed=26)
    assert passes(FIRST, slower) == 0
    assert passes(FIRST, 1 / slower) > 40


@pytest.mark.parametrize(("speed", "share", "runs"), [(1.01, 0.001, 500), (1.02, 0.020, 1500)])
def test_three_counted_attempts_stay_within_the_family(
    simulate: Simulate, speed: float, share: float, runs: int
) -> None:
    draws = [simulate("rough", speed, runs=runs, seed=30 + attempt).tolist() for attempt in BY_ATTEMPT]
    activated = sum(
        any(isinstance(decide(rule, draw[run]), Pass) for rule, draw in zip(BY_ATTEMPT.values(), draws, strict=True))
        for run in range(runs)
    )
    assert activated <= runs * share


def test_mutant_uncounted_attempts_exceed_what_counted_ones_spend(simulate: Simulate) -> None:
    draws = [simulate("typical", 1.02, runs=600, seed=40 + attempt).tolist() for attempt in range(5)]
    activated = sum(any(isinstance(decide(FIRST, draw[run]), Pass) for draw in draws) for run in range(600))
    assert activated > 600 * 0.020
