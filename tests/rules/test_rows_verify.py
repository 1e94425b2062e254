"""Rows of a sound record are complete and hold for the verifier; a row that lies about its samples does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.certs.gates import Demand, _judge_row
from pytest_frt.certs.mandatory import groups_for
from pytest_frt.contracts.evidence import Check, HostMetrics, LedgerEntry, NullControl, SeamMetrics
from pytest_frt.contracts.record import GateRow
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.errors import CertificateRefused
from pytest_frt.rules import rows
from tests.rules.sound import POOLED

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.008, 0.02, 0.05, 0.01, "test")
SEATS = ("a", "b")


def sound_rows(output: str) -> dict[str, GateRow]:
    seam = [
        SeamMetrics(
            seat=seat,
            case="real",
            output=0,
            rows=8,
            finite=True,
            candidate_error=0.0051,
            scheme_error=0.005,
            slope=1.0012,
            rel_l2=1 / 300,
            row_rel_l2=0.01,
            max_abs=0.3,
            outliers=0.001,
            cosine=0.9999,
            elements=8192,
        )
        for seat in SEATS
    ]
    host = [
        HostMetrics(i, finite=True, cosine=1 - i / 1e5, top1=1.0, last_cosine=1.0, kl=i / 1e4, max_abs=0.1)
        for i in range(12)
    ]
    units = [[1.2 + index / 7, 1.3, 1.4] for index in range(8)]
    built = (
        *rows.null_rows(NullControl(9, (), (), (), ()), "decode"),
        *rows.seat_rows(SEATS),
        *rows.seam_rows(seam, SEATS, dict.fromkeys(SEATS, LIMITS)),
        *rows.pooled_rows([replace(POOLED, seat=seat) for seat in SEATS], SEATS, dict.fromkeys(SEATS, LIMITS)),
        *rows.host_rows(output, host, band="pass"),
        *rows.ledger_rows([LedgerEntry(seat, 5, 0, 0, {}, restored=False) for seat in SEATS], SEATS),
        *rows.contract_rows([Check("detach_exact", ok=True, detail="")]),
        rows.net_win_row(rows.rounded(units)),
    )
    return {row.name: row for row in built}


@pytest.mark.parametrize("output", ["values", "distribution"])
def test_every_mandatory_row_is_there_and_holds(output: str) -> None:
    built = sound_rows(output)
    for group in groups_for(plan=False, random_weights=False):
        assert any(set(names) <= built.keys() for names in group), group
    for row in built.values():
        _judge_row(row, 1, Demand("PASSED"))


@pytest.mark.parametrize("name", sound_rows("distribution"))
def test_a_number_its_samples_do_not_give_is_refused(name: str) -> None:
    row = sound_rows("distribution")[name]
    other = rows.decimal(float(row.measured) + 0.5)
    with pytest.raises(CertificateRefused):
        _judge_row(replace(row, measured=other), 1, Demand("PASSED"))
