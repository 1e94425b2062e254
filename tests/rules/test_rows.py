"""Gate rows: plain decimals, and numbers that follow from their own samples."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_frt.contracts.evidence import Check, HostMetrics, LedgerEntry, NullControl
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.errors import EvidenceError
from pytest_frt.rules import rows
from tests.rules.sound import LIMITS, METRICS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (-0.0, "0"), (-1e-13, "0"), (1e-7, "0.0000001"), (1.5e14, "150000000000000"), (20.0, "20"),
        (-2.50, "-2.5"),
    ],
)  # fmt: skip
def test_decimal(value: float, text: str) -> None:
    assert rows.decimal(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e15, 1e300])
def test_what_has_no_plain_decimal_is_an_error(value: float) -> None:
    with pytest.raises(EvidenceError, match="plain decimal"):
        rows.decimal(value)


@given(st.floats(-1e14, 1e14))
def test_decimal_is_plain_and_near(value: float) -> None:
    text = rows.decimal(value)
    assert rows.DECIMAL.fullmatch(text)
    assert abs(Decimal(text) - Decimal(value)) <= Decimal("5e-13")


@pytest.mark.parametrize(("statistic", "result"), [("min", "0.1"), ("max", "0.4"), ("median", "0.25")])
def test_fold_samples(statistic: str, result: str) -> None:
    assert rows.fold_samples(statistic, ["0.3", "0.1", "0.4", "0.2"]) == result


@pytest.mark.parametrize(
    ("statistic", "samples"),
    [("median", []), ("mean", ["1"]), ("min", ["nan"]), ("min", ["1e3"]), ("min", ["0:1.0"]), ("max", ["٣"])],
    ids=["empty", "unknown_statistic", "nan", "exponent", "process_index", "other_digits"],
)
def test_samples_that_do_not_fold(statistic: str, samples: list[str]) -> None:
    with pytest.raises(EvidenceError):
        rows.fold_samples(statistic, samples)


def by_name(built: tuple[rows.GateRow, ...]) -> dict[str, str]:
    assert all(row.n == len(row.samples) > 0 for row in built)
    return {row.name: row.measured for row in built}


def test_null_rows() -> None:
    null = NullControl(9, ("w",), ("b",), ("prefill",), ())
    assert by_name(rows.null_rows(null, "decode")) == {
        "null_control.tensors_differing": "2",
        "null_control.repeat_identical": "1",
    }
    assert by_name(rows.null_rows(null, "prefill"))["null_control.repeat_identical"] == "0"


def test_seam_rows_take_the_worst_of_each_seat() -> None:
    metrics = [METRICS, replace(METRICS, case="edge", candidate_error=0.003, rel_l2=0.004, row_rel_l2=0.001)]
    built = rows.seam_rows(metrics, ["a"], {"a": LIMITS})
    numbers = by_name(built)
    assert numbers["parity.seam.rel_l2"] == "0.004"
    assert numbers["parity.seam.row_rel_l2"] == "0.003"
    assert numbers["parity.seam.reference_ratio"] == "0.5"
    assert {row.floor for row in built} == {"1", "0.002", "0.008", "0.02", "0.05"}


def test_seats_of_several_schemes_share_only_the_reference_ratio() -> None:
    other = SeamLimits(2.0, 1e-5, 0.002, 1e-5, 1e-4, 1e-3, 0.0, "test")
    second = replace(METRICS, seat="b")
    built = rows.seam_rows([METRICS, second], ["a", "b"], {"a": LIMITS, "b": other})
    assert [row.name for row in built] == ["parity.seam.reference_ratio"]
    assert built[0].n == 2


def test_a_seat_without_evidence_has_no_rows() -> None:
    with pytest.raises(EvidenceError, match="b"):
        rows.seam_rows([METRICS], ["a", "b"], {"a": LIMITS, "b": LIMITS})
    with pytest.raises(EvidenceError, match="b"):
        rows.ledger_rows([LedgerEntry("a", 1, 0, 0, {}, restored=False)], ["a", "b"])


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("values", ["parity.host.cosine"]),
        ("distribution", ["parity.host.top1", "parity.host.last_cosine", "parity.host.kl"]),
    ],
)
def test_host_rows(output: str, names: list[str]) -> None:
    sample = HostMetrics(0, finite=True, cosine=0.9995, top1=0.96875, last_cosine=0.999, kl=0.01, max_abs=1.0)
    built = rows.host_rows(output, [sample] * 12, band="warn")
    assert [row.name for row in built] == names
    assert {(row.statistic, row.n, row.band) for row in built} == {("median", 12, "warn")}


def test_ledger_contract_and_seat_rows() -> None:
    entries = [LedgerEntry("a", 5, 0, 0, {}, restored=False), LedgerEntry("b", 0, 0, 2, {"rows": 2}, restored=False)]
    assert by_name(rows.ledger_rows(entries, ["a", "b"])) == {"ledger.fallbacks": "2", "ledger.never_called": "1"}
    checks = [Check("detach", ok=True, detail=""), Check("pickle", ok=False, detail="")]
    assert by_name(rows.contract_rows(checks)) == {"contract.failed": "1"}
    assert by_name(rows.seat_rows(["a", "b"])) == {"seats.certified": "2"}


def test_net_win_row_keeps_every_unit_with_its_process() -> None:
    row = rows.net_win_row(rows.rounded([[1.04123456789, 1.05], [1.06]]))
    assert row.samples == ("0:1.041235", "0:1.05", "1:1.06")
    assert (row.measured, row.statistic, row.n, row.floor) == ("1.05", "frt_nw_1", 3, "1.02")
