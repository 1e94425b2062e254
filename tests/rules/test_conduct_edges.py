"""Edges of conduct: the declared spread itself holds, every layout is told, and who is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_frt.contracts.evidence import Conduct
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.structure import Limit
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.rules import conduct

LIMITS = SeamLimits(2.0, 0.004, 0.002, 0.25, 0.02, 0.05, 0.0, "test")
GOOD = Conduct("a", 3, 0.0, carried=False, layouts={"sliced": 0.0}, raised={}, mates=0.01, mates_rows=(1, 8))
SPREADS = (Limit("cosine", ">=", 0.9, "another"), Limit("repeat", "<=", 0.5, "atomic sums"))


def refused(one: Conduct, structure: tuple[Limit, ...] = ()) -> Refusal:
    found = conduct.fault("a", [replace(GOOD, seat="z", repeat=9.0), one], LIMITS, structure)
    assert found is not None
    assert (found.gate, found.at) == ("parity", "a")
    return found


@pytest.mark.parametrize(
    ("carried", "reason", "why"),
    [(True, "stale", "carries something from call to call"), (False, "nondeterministic", "does not repeat itself")],
)
def test_what_differs_between_runs_is_told(reason: str, why: str, *, carried: bool) -> None:
    found = refused(replace(GOOD, repeat=0.75, carried=carried), SPREADS)
    assert found.reason == reason
    assert found.detail == f"seat a {why}: runs on the same rows differ by 0.75, declared is 0.5"
    assert found.measured == (Measured("seam.repeat", 0.75, "<=", 0.5, 3, at="a"),)


def test_a_carried_pass_that_changes_no_bit_is_no_fault() -> None:
    assert conduct.fault("a", [replace(GOOD, carried=True)], LIMITS, ()) is None
    assert conduct.fault("a", [replace(GOOD, repeat=0.5)], LIMITS, SPREADS) is None


def test_a_wrong_shape_comes_before_a_layout() -> None:
    found = refused(replace(GOOD, shapes={"flat": "(2,)", "sliced": "int64"}, layouts={"sliced": 1.0}))
    assert (found.reason, found.detail) == ("shape", "seat a returned a wrong shape or dtype: (2,); int64")


def test_every_layout_over_the_limit_is_told() -> None:
    found = refused(replace(GOOD, layouts={"sliced": 0.25, "strided": 0.5, "offset": 1.0}, raised={"expanded": "view"}))
    assert found.reason == "layout"
    assert found.measured == (
        Measured("seam.layout", 0.5, "<=", 0.25, 1, at="a|strided"),
        Measured("seam.layout", 1.0, "<=", 0.25, 1, at="a|offset"),
    )
    assert found.detail.endswith(": strided differs by 0.5; offset differs by 1; expanded raises view")


def test_what_raises_alone_is_a_layout_too() -> None:
    found = refused(replace(GOOD, raised={"expanded": "view"}))
    assert (found.reason, found.measured) == ("layout", ())


@pytest.mark.parametrize(
    ("rows", "stated"), [((1, 2), True), ((8, 8), False), ((8, 1), False)], ids=["two_heights", "one", "none"]
)
def test_batch_mates_need_two_heights(rows: tuple[int, int], *, stated: bool) -> None:
    found = list(conduct.reported([replace(GOOD, mates_rows=rows)], ("a",)))
    number = Measured("seam.batch_mates", 0.01, "reported", 0.01, rows[1], at=f"a|{rows[0]} of {rows[1]}")
    assert found == ([number] if stated else [])


def test_words_of_conduct() -> None:
    assert (conduct.REPEAT, conduct.REPORTED) == ("repeat", "reported")
