"""Gates that the verifier does not know, single samples, and the worst sample in either direction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs.gates import Demand, judge
from pytest_frt.contracts.record import GateRow
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World

PASSED, WARNED = Demand("PASSED"), Demand("PASSED", allow_warn=True)
RATIOS = tuple(f"{process}:1.3{unit}" for process in range(8) for unit in range(3))
HELD = ("0.9995",) * 12


def own(op: str, samples: tuple[str, ...], statistic: str, measured: str) -> GateRow:
    return GateRow("own.gate", op, "1", measured, len(samples), statistic, samples)


def outcome(world: World, gates: tuple[GateRow, ...], demand: Demand = PASSED) -> str:
    """Return the refusal code, or the band of the last gate."""
    try:
        return judge(replace(world.record, gates=gates), demand)[-1].band
    except CertificateRefused as refusal:
        return refusal.refusal_code


OWN = {
    "the worst of several, at least": (own(">=", ("1.2", "1.1"), "min", "1.1"), "pass"),
    "the worst of several, at most": (own("<=", ("0.5", "0.9"), "max", "0.9"), "pass"),
    "the median, at least": (own(">=", ("1.2", "1.1", "0.5"), "median", "1.1"), "pass"),
    "the median, at most": (own("<=", ("0.5", "0.9", "3"), "median", "0.9"), "pass"),
    "the best of several, at least": (own(">=", ("1.2", "0.5"), "max", "1.2"), "GATE_SAMPLES"),
    "the best of several, at most": (own("<=", ("0.5", "3"), "min", "0.5"), "GATE_SAMPLES"),
    "one sample by any fold": (own(">=", ("1.2",), "max", "1.2"), "pass"),
    "at its floor": (own(">=", ("1",), "min", "1"), "pass"),
    "below its floor": (own(">=", ("0.999",), "min", "0.999"), "GATE_FAIL"),
    "a sample of net win": (own(">=", ("0:1.2",), "min", "1.2"), "GATE_SAMPLES"),
    "net win's fold of ratios": (own(">=", RATIOS, "frt_nw_1", "1.31"), "GATE_SAMPLES"),
    "a warning": (replace(own(">=", ("1.2",), "min", "1.2"), band="warn"), "GATE_WARN"),
}


@pytest.mark.parametrize("case", OWN)
def test_gate_of_ones_own(world: World, case: str) -> None:
    row, want = OWN[case]
    assert outcome(world, (*world.record.gates, row)) == want


def test_single_sample_of_a_known_gate_folds_by_anything(world: World) -> None:
    gates = tuple(
        replace(row, statistic="min") if row.name == "ledger.fallbacks" else row for row in world.record.gates
    )
    assert outcome(world, gates) == "pass"


def distribution(world: World, worst_kl: str) -> tuple[GateRow, ...]:
    """Return the world's gates with the host metrics of a distribution; one sample of the KL is ``worst_kl``."""
    others = tuple(row for row in world.record.gates if not row.name.startswith("parity.host."))
    kl = ("0.05",) * 12 + (worst_kl,)
    return (
        *others,
        GateRow("parity.host.top1", ">=", "0.95", "0.9995", 12, "median", HELD),
        GateRow("parity.host.last_cosine", ">=", "0.99", "0.9995", 12, "median", HELD),
        GateRow("parity.host.kl", "<=", "0.1", "0.05", 13, "median", kl),
    )


@pytest.mark.parametrize(
    ("worst", "want", "where_warnings_are_taken"),
    [
        ("0.1", "pass", "pass"),
        ("0.101", "GATE_WARN", "warn"),
        ("0.5", "GATE_WARN", "warn"),
        ("0.501", "GATE_FAIL", "GATE_FAIL"),
    ],
)
def test_worst_sample_of_a_gate_that_wants_little(
    world: World, worst: str, want: str, where_warnings_are_taken: str
) -> None:
    gates = distribution(world, worst)
    assert (outcome(world, gates), outcome(world, gates, WARNED)) == (want, where_warnings_are_taken)


SLOW = tuple(f"{process}:1.0{unit}" for process in range(8) for unit in range(3))
LOSS = tuple(f"{process}:0.9{unit}" for process in range(8) for unit in range(3))
EVEN = tuple(f"{process}:{ratio}" for process in range(8) for ratio in ("1.01", "1.05") * 5)
SAID = {
    "a loss": (LOSS, "0.91", 1, "no_win: pooled median"),
    "all units and no decision": (EVEN, "1.03", 1, r"at attempt 1: not decided: \S"),
    "a few units that decide nothing": (SLOW, "1.01", 1, r"latency.net_win at attempt 1: \w+: \S"),
    "too few processes": (RATIOS[:3], "1.31", 1, r"latency.net_win at attempt 1: (\w+: )?\S"),
    "a first process of another number": (("1:1.31", *RATIOS[3:]), "1.31", 1, "samples are process-major"),
}


@pytest.mark.parametrize("case", SAID)
def test_net_win_that_does_not_hold_says_why(world: World, case: str) -> None:
    samples, measured, attempts, words = SAID[case]
    gates = tuple(
        replace(row, samples=samples, n=len(samples), measured=measured) if row.name == "latency.net_win" else row
        for row in world.record.gates
    )
    with pytest.raises(CertificateRefused, match=words) as caught:
        judge(replace(world.record, gates=gates, attempts=attempts), PASSED)
    assert "None" not in caught.value.message
