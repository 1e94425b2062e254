"""Edges of parity at the host: controls must collapse, probes must follow, and what is only stated is stated right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_frt.contracts.evidence import HostMetrics, ParityEvidence
from pytest_frt.contracts.verdict import Measured, Pass, Refusal
from pytest_frt.gates import parity_host
from pytest_frt.gates.parity_host import Vacuous

GOOD = HostMetrics(sample=0, finite=True, cosine=0.9999, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=0.1)
HOST = tuple(replace(GOOD, sample=index) for index in range(12))
LOW = (replace(GOOD, cosine=0.25),)


def evidence(**change: Any) -> ParityEvidence:
    return replace(ParityEvidence((), HOST, LOW, frozen=LOW, probes=(replace(GOOD, cosine=0.9997),)), **change)


def refusal(found: object) -> Refusal:
    assert isinstance(found, Refusal), found
    assert (found.gate, found.at) == ("parity", "host")
    return found


def test_a_host_that_holds_states_its_gap() -> None:
    found = parity_host.judge(evidence(), "values", "trained")
    assert isinstance(found, Pass)
    gap = pytest.approx(0.9997 - 0.9999)
    assert found.measured[-1] == Measured("host.cosine.in_sample_gap", gap, "reported", gap, 1)


def test_a_host_with_a_spread_states_it_per_metric() -> None:
    spread = (replace(GOOD, kl=0.3), replace(GOOD, top1=0.9, last_cosine=0.97))
    low = (replace(GOOD, top1=0.1),)
    found = parity_host.judge(evidence(spread=spread, zeroed=low, frozen=low), "distribution", "trained")
    assert isinstance(found, Pass)
    assert found.measured[-3:] == (
        Measured("host.top1.two_seed_spread", 0.9, "reported", 0.9, 2),
        Measured("host.last_cosine.two_seed_spread", 0.97, "reported", 0.97, 2),
        Measured("host.kl.two_seed_spread", 0.3, "reported", 0.3, 2),
    )


@pytest.mark.parametrize("control", ["zeroed", "frozen"])
def test_each_control_must_be_there_and_collapse(control: str) -> None:
    missing = refusal(parity_host.judge(evidence(**{control: ()}), "values", "trained"))
    assert missing.reason == "no_control"
    stays = (*LOW, replace(GOOD, cosine=0.995), replace(GOOD, cosine=0.5))
    blind = refusal(parity_host.judge(evidence(**{control: stays}), "values", "trained"))
    assert blind.reason == "vacuous_control"
    assert blind.measured == (Measured(f"{control}.cosine", 0.995, "<", 0.995, 3),)


def test_controls_do_what_their_sentence_says() -> None:
    assert parity_host.CONTROLS == {"zeroed": "returning zeros", "frozen": "repeating its first answer"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"host": HOST[:11]}, "few_samples", id="few_samples"),
        pytest.param({"host": (*HOST[1:], replace(GOOD, cosine=0.9))}, "host_band", id="host_first"),
        pytest.param({"probes": ()}, "no_control", id="no_probe"),
        pytest.param({"probes": (replace(GOOD, cosine=0.9),), "zeroed": ()}, "stale", id="stale_before_controls"),
    ],
)
def test_the_first_cause_is_named(change: dict[str, Any], reason: str) -> None:
    found = parity_host.judge(evidence(**change), "values", "trained")
    assert isinstance(found, Refusal)
    assert found.reason == reason


WIDE = (replace(GOOD, cosine=0.9),)


@pytest.mark.parametrize("where", ["evidence", "terms"])
def test_a_spread_widens_samples_and_probes(where: str) -> None:
    far = evidence(host=(*HOST[1:], replace(GOOD, cosine=0.92)), probes=(replace(GOOD, cosine=0.91),))
    assert isinstance(parity_host.judge(far, "values", "trained"), Refusal)
    own = replace(far, spread=WIDE) if where == "evidence" else far
    found = parity_host.judge(own, "values", "trained", spread=WIDE if where == "terms" else ())
    assert isinstance(found, Pass)
    assert found.band == "warn"


def test_the_spread_of_the_terms_comes_before_that_of_the_witness() -> None:
    far = evidence(host=(*HOST[1:], replace(GOOD, cosine=0.92)), spread=WIDE)
    assert isinstance(parity_host.judge(far, "values", "trained", spread=(GOOD,)), Refusal)


@pytest.mark.parametrize("place", ["host", "probes"])
def test_random_weights_refuse_a_nan_by_its_sample(place: str) -> None:
    broken = evidence(**{place: (GOOD, replace(GOOD, sample=9, finite=False))})
    found = refusal(parity_host.judge(broken, "values", "random"))
    assert (found.reason, found.detail.endswith("of samples 9")) == ("nan", True)


@pytest.mark.parametrize(
    ("zeroed", "dead"),
    [
        pytest.param((GOOD, replace(GOOD, max_abs=0.0)), True, id="one_moves_no_bit"),
        pytest.param((replace(GOOD, max_abs=1e-30),), False, id="moves_a_bit"),
        pytest.param((replace(GOOD, max_abs=0.0, finite=False),), False, id="not_finite"),
        pytest.param((), False, id="no_control"),
    ],
)
def test_random_weights_refuse_dead_seats(zeroed: tuple[HostMetrics, ...], *, dead: bool) -> None:
    found = parity_host.judge(evidence(zeroed=zeroed), "values", "random")
    assert isinstance(found, Refusal if dead else Vacuous)
    assert not dead or refusal(found).reason == "vacuous_control"


def test_random_weights_state_the_worst_of_every_metric() -> None:
    host = (GOOD, replace(GOOD, top1=0.5, kl=2.0))
    found = parity_host.judge(evidence(host=host), "distribution", "random")
    assert isinstance(found, Vacuous)
    assert found.measured == (
        Measured("host.top1.worst", 0.5, ">=", 0.85, 2),
        Measured("host.last_cosine.worst", 1.0, ">=", 0.95, 2),
        Measured("host.kl.worst", 2.0, "<=", 0.5, 2),
    )
    nothing = parity_host.judge(evidence(host=(), probes=()), "distribution", "random")
    assert isinstance(nothing, Vacuous)
    assert nothing.measured == ()
