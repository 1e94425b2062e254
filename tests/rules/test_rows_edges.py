"""Edges of gate rows: names a verifier looks up, floors, and numbers that must not get lost on the way."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import HostMetrics, NullControl
from pytest_frt.errors import EvidenceError
from pytest_frt.rules import rows
from tests.rules.sound import LIMITS, METRICS


@pytest.mark.parametrize(("value", "places", "text"), [(20.0, 0, "20"), (0.26, 1, "0.3"), (100.5, 12, "100.5")])
def test_decimal_keeps_the_zeros_of_whole_numbers(value: float, places: int, text: str) -> None:
    assert rows.decimal(value, places) == text


def floors(built: tuple[rows.GateRow, ...]) -> dict[str, tuple[str, str, str]]:
    return {row.name: (row.op, row.floor, row.statistic) for row in built}


def test_the_sample_that_is_no_decimal_is_named() -> None:
    with pytest.raises(EvidenceError, match="'1e3'"):
        rows.fold_samples("min", ["1", "1e3", "nan"])


def test_rows_that_count_state_their_floor() -> None:
    null = rows.null_rows(NullControl(9, (), (), (), ()), "decode")
    assert floors((*null, *rows.seat_rows(["a"]))) == {
        "null_control.tensors_differing": ("<=", "0", "max"),
        "null_control.repeat_identical": (">=", "1", "min"),
        "seats.certified": (">=", "1", "min"),
    }


def test_the_row_of_net_win_has_the_name_that_verifiers_know() -> None:
    assert rows.net_win_row([[1.5]]).name == "latency.net_win"


def test_metrics_of_other_seats_count_for_none() -> None:
    others = [replace(METRICS, seat="z", rel_l2=0.9), METRICS]
    built = rows.seam_rows(others, ["a"], {"a": LIMITS})
    assert {row.name: row.samples for row in built}["parity.seam.rel_l2"] == ("0.002",)


@pytest.mark.parametrize("broken", [0, 1], ids=["before_a_sound_one", "after_a_sound_one"])
def test_nan_is_not_lost_among_sound_numbers(broken: int) -> None:
    metrics = [METRICS, replace(METRICS, case="edge")]
    metrics[broken] = replace(metrics[broken], rel_l2=math.nan)
    with pytest.raises(EvidenceError, match="nan"):
        rows.seam_rows(metrics, ["a"], {"a": LIMITS})


def test_host_rows_hold_every_sample_in_order() -> None:
    sample = HostMetrics(0, finite=True, cosine=0.9995, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=1.0)
    (row,) = rows.host_rows("values", [sample, replace(sample, sample=1, cosine=0.9975)], band="pass")
    assert (row.samples, row.measured, row.op, row.floor) == (("0.9995", "0.9975"), "0.9985", ">=", "0.999")
