"""Gates are recomputed from samples; a certificate that lies about one in any way is refused."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import statement, verify
from pytest_frt.certs.gates import Demand, Floor, judge, judge_plan
from pytest_frt.certs.mandatory import CELL_GROUPS, PLAN_GROUPS, RULES
from pytest_frt.contracts.record import GateRow
from pytest_frt.errors import CertificateRefused
from pytest_frt.rules import rows

if TYPE_CHECKING:
    from tests.certs.conftest import World

PASSED = Demand("PASSED")


def with_row(world: World, name: str, **changes: object) -> tuple[GateRow, ...]:
    return tuple(replace(row, **changes) if row.name == name else row for row in world.record.gates)


def code(world: World, gates: tuple[GateRow, ...], demand: Demand = PASSED, attempts: int = 1) -> str:
    with pytest.raises(CertificateRefused) as caught:
        judge(replace(world.record, gates=gates, attempts=attempts), demand)
    return caught.value.refusal_code


LIES = [
    ("stated number is better", "parity.seam.rel_l2", {"measured": "0.0001"}, "GATE_SAMPLES"),
    ("n is larger", "parity.seam.rel_l2", {"n": 200}, "GATE_SAMPLES"),
    ("no samples", "parity.seam.rel_l2", {"n": 0, "samples": ()}, "GATE_SAMPLES"),
    ("best of the samples", "parity.seam.rel_l2", {"statistic": "min", "measured": "0.0004"}, "GATE_SAMPLES"),
    ("direction turned", "parity.seam.rel_l2", {"op": ">=", "floor": "0"}, "GATE_OP"),
    ("own floor raised", "ledger.fallbacks", {"floor": "1"}, "GATE_FLOOR"),
    ("a fallback", "ledger.fallbacks", {"measured": "1", "samples": ("1",), "floor": "1"}, "GATE_FLOOR"),
    ("a fallback past its own floor", "ledger.fallbacks", {"measured": "1", "samples": ("1",)}, "GATE_FAIL"),
    ("reference ratio over 1", "parity.seam.reference_ratio", {"floor": "2"}, "GATE_FLOOR"),
    ("one bad held-out sample", "parity.host.cosine", {"samples": ("0.9995",) * 12 + ("0.9",)}, "GATE_FAIL"),
    ("a warn sample called pass", "parity.host.cosine", {"samples": ("0.9995",) * 12 + ("0.996",)}, "GATE_WARN"),
    ("band warn", "parity.host.cosine", {"band": "warn"}, "GATE_WARN"),
    ("eleven held-out samples", "parity.host.cosine", {"n": 11, "samples": ("0.9995",) * 11}, "GATE_SAMPLES"),
    ("net win by median", "latency.net_win", {"statistic": "median", "n": 1, "samples": ("1.31",)}, "GATE_SAMPLES"),
    ("net win below its limit", "latency.net_win", {"floor": "1.01"}, "GATE_FLOOR"),
    ("net win without processes", "latency.net_win", {"samples": ("1.31",) * 24}, "GATE_SAMPLES"),
    ("processes out of order", "latency.net_win", {"samples": ("1:1.31",) + ("0:1.31",) * 23}, "GATE_SAMPLES"),
    ("one process only", "latency.net_win", {"samples": ("0:1.31",) * 24}, "GATE_FAIL"),
]


@pytest.mark.parametrize(("name", "changes", "want"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_lie(world: World, name: str, changes: dict[str, object], want: str) -> None:
    assert code(world, with_row(world, name, **changes)) == want


def test_net_win_is_judged_again_by_the_rule(world: World) -> None:
    slow = tuple(f"{p}:1.03" if u else f"{p}:1.0" for p in range(8) for u in range(3))
    gates = with_row(world, "latency.net_win", samples=slow, measured="1.03")
    assert code(world, gates) == "GATE_FAIL"
    assert code(world, world.record.gates, attempts=9) == "GATE_FAIL"


def test_a_deployers_floor_is_held_against_floor_and_number(world: World) -> None:
    def floor(gate: str, op: str, value: str, min_n: int = 1) -> Demand:
        return Demand("PASSED", (Floor(gate, op, Decimal(value), min_n, "rule 1"),))

    gates = world.record.gates
    assert code(world, gates, floor("parity.seam.rel_l2", "<=", "0.0019")) == "GATE_FLOOR"
    assert code(world, gates, floor("parity.seam.rel_l2", ">=", "0.0019")) == "GATE_OP"
    assert code(world, gates, floor("parity.host.cosine", ">=", "0.999", 14)) == "GATE_SAMPLES"
    assert code(world, gates, floor("latency.net_win", ">=", "1.4")) == "GATE_FAIL"
    assert code(world, gates, floor("own.gate", ">=", "1")) == "GATE_MISSING"
    # The rule fixes the margin of net win, so a higher floor asks the number alone; the host kind fixes its metrics.
    assert judge(world.record, floor("latency.net_win", ">=", "1.3"))
    assert judge(world.record, floor("parity.host.top1", ">=", "0.95"))
    assert judge(world.record, floor("parity.host.cosine", ">=", "0.999", 13))


def test_warn_is_taken_where_the_policy_says_so(world: World) -> None:
    gates = with_row(world, "parity.host.cosine", samples=("0.9995",) * 12 + ("0.996",))
    judged = judge(replace(world.record, gates=gates), Demand("PASSED", allow_warn=True))
    assert {gate.name: gate.band for gate in judged}["parity.host.cosine"] == "warn"


@pytest.mark.parametrize("group", CELL_GROUPS, ids=lambda group: group[0][0])
def test_every_mandatory_gate_is_missed(world: World, group: tuple[tuple[str, ...], ...]) -> None:
    gates = tuple(row for row in world.record.gates if all(row.name not in names for names in group))
    assert code(world, gates) == "GATE_MISSING"


@pytest.mark.parametrize("group", PLAN_GROUPS, ids=lambda group: group[0][0])
def test_every_mandatory_gate_of_a_plan_is_missed(world: World, group: tuple[tuple[str, ...], ...]) -> None:
    certificate = statement.parse_payload(world.plan(world.payload()))
    assert isinstance(certificate, statement.PlanCertificate)
    gates = tuple(row for row in certificate.plan.gates if all(row.name not in names for names in group))
    with pytest.raises(CertificateRefused, match="mandatory and absent"):
        judge_plan(replace(certificate.plan, gates=gates), PASSED)


def test_random_hosts_need_no_host_parity_and_a_policy_that_takes_them(world: World) -> None:
    host = replace(world.record.host, weights="random", checkpoint="synthetic(0, normal)")
    gates = tuple(row for row in world.record.gates if not row.name.startswith("parity.host."))
    line = world.line(world.payload(replace(world.record, host=host, gates=gates)))
    assert world.verify(line)[0].code == "SYNTHETIC"
    allow = (("skew_s = 300", "allow_synthetic = true"),)
    assert isinstance(world.verify(line, changes=allow)[0], verify.Accepted)


def test_plan_on_random_weights_needs_no_host_parity(world: World) -> None:
    certificate = statement.parse_payload(world.plan(world.payload()))
    assert isinstance(certificate, statement.PlanCertificate)
    gates = tuple(row for row in certificate.plan.gates if not row.name.startswith("parity.host."))
    host = replace(certificate.plan.host, weights="random")
    assert [gate.name for gate in judge_plan(replace(certificate.plan, gates=gates, host=host), PASSED)]
    with pytest.raises(CertificateRefused, match="mandatory and absent"):
        judge_plan(replace(certificate.plan, gates=gates), PASSED)


def test_the_gate_that_is_stated_twice_is_named(world: World) -> None:
    gates = (*world.record.gates, world.record.gates[3], world.record.gates[3], world.record.gates[5])
    twice = sorted({world.record.gates[3].name, world.record.gates[5].name})
    with pytest.raises(CertificateRefused, match=f"gate {twice[0]} is stated more than once"):
        judge(replace(world.record, gates=gates), PASSED)


def test_the_table_speaks_of_the_rows_that_runs_write() -> None:
    """A name the run side spells otherwise would make every certificate incomplete."""
    for name in ("parity.seam.reference_ratio", rows.NET_WIN_ROW):
        assert name in RULES
    assert {f"parity.seam.{name}" for name in rows.SEAM_NUMBERS} <= set(RULES)
    for row in (*rows.seat_rows(["a"]), rows.net_win_row([[1.3] * 3] * 8)):
        assert (row.op, row.statistic in RULES[row.name].folds) == (RULES[row.name].op, True)


def test_the_signer_refuses_a_life_that_ends_before_it_starts(world: World) -> None:
    terms = world.terms | {"expires_at": world.terms["issued_at"]}
    with pytest.raises(CertificateRefused, match="expires before it is issued"):
        statement.build_cell(world.record, **terms)


def test_the_signer_judges_before_it_writes(world: World) -> None:
    with pytest.raises(CertificateRefused) as caught:
        world.payload(replace(world.record, gates=with_row(world, "ledger.fallbacks", samples=("1",), measured="1")))
    assert caught.value.refusal_code == "GATE_FAIL"
