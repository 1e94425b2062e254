from __future__ import annotations

import pytest

from pytest_frt.contracts.verdict import (
    Crashed,
    Inconclusive,
    Invalid,
    Measured,
    NotRun,
    Pass,
    Refusal,
    SeatVerdicts,
    Verdict,
)
from pytest_frt.gates import union
from pytest_frt.gates.parity import ParityVerdict, Vacuous
from pytest_frt.gates.union import Standing, worst_unit

SEATS = SeatVerdicts("parity", ("a", "b"))
LEDGER = SeatVerdicts("ledger", ("a", "b"), measured=(Measured("served", 4, ">=", 4, 2),))
FAST = Pass("net_win", (Measured("pooled_median", 1.3, ">", 1.02, 24),))
SAME = ParityVerdict(SEATS, Pass("parity"))


@pytest.mark.parametrize("host", [Pass("parity"), Vacuous("random weights")], ids=["trained", "random"])
def test_a_union_that_holds(host: Pass | Vacuous) -> None:
    verdict = union.judge(ParityVerdict(SEATS, host), LEDGER, FAST)
    assert isinstance(verdict, Pass)
    assert {number.metric for number in verdict.measured} == {"served", "pooled_median"}


@pytest.mark.parametrize(
    ("parity", "net_win", "band"),
    [(Pass("parity", band="warn"), FAST, "warn"), (Pass("parity"), Pass("net_win", band="provisional"), "provisional")],
    ids=["warn", "provisional"],
)
def test_a_weaker_band_travels(parity: Pass, net_win: Pass, band: str) -> None:
    verdict = union.judge(ParityVerdict(SEATS, parity), LEDGER, net_win)
    assert isinstance(verdict, Pass)
    assert verdict.band == band


@pytest.mark.parametrize("gate", ["parity", "ledger"])
def test_one_seat_refuses_the_plan(gate: str) -> None:
    partial = SeatVerdicts(gate, ("a",), (Refusal(gate, "fallbacks", "x", at="b"),))
    parity = ParityVerdict(partial, NotRun("parity", "x")) if gate == "parity" else SAME
    verdict = union.judge(parity, partial if gate == "ledger" else LEDGER, FAST)
    assert isinstance(verdict, Refusal)
    assert (verdict.gate, verdict.reason, verdict.at) == ("union", "fallbacks", "b")


@pytest.mark.parametrize(
    "verdict",
    [
        Refusal("net_win", "no_win", "x"),
        Inconclusive("net_win", "x"),
        Invalid("net_win", "canary", "x"),
        Crashed("net_win", "CRASH", "x"),
        NotRun("net_win", "x"),
    ],
    ids=lambda verdict: type(verdict).__name__,
)
def test_what_does_not_hold_is_said_as_the_unions(verdict: Verdict) -> None:
    found = union.judge(SAME, LEDGER, verdict)
    assert type(found) is type(verdict)
    assert found.gate == "union"


def test_host_parity_refuses_the_plan() -> None:
    verdict = union.judge(ParityVerdict(SEATS, Refusal("parity", "host_band", "x")), LEDGER, FAST)
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "host_band"


UNITS = [Standing("ffn", ("a", "c"), 1.3), Standing("proj", ("b",), 1.1), Standing("qkv", ("d",), 1.1)]


@pytest.mark.parametrize(
    ("refused", "worst"),
    [
        pytest.param(["a"], "ffn", id="the_one_with_a_refused_seat"),
        pytest.param(["a", "b", "c"], "ffn", id="most_refused_seats"),
        pytest.param(["b", "d"], "proj", id="equal_speed_by_name"),
        pytest.param([], "proj", id="slowest_when_the_whole_was_refused"),
    ],
)
def test_worst_unit(refused: list[str], worst: str) -> None:
    found = [Refusal("parity", "nan", "x", at=seat) for seat in refused]
    assert worst_unit(UNITS, found) == worst
    assert worst_unit(UNITS[::-1], found) == worst
