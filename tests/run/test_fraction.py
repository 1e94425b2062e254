"""Fractions share out every record once, by its id alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_frt.run.fraction import share_of, split
from pytest_frt.run.plan import RunPlan, UnionPlan

IDS = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=12)
COUNTS = st.integers(1, 6)
FIXED = [4, 3, 4, 4, 1, 1]
"""Fractions of the first records below: a release that moved them would judge some twice and some never."""


def planned(names: list[str]) -> RunPlan:
    records: Any = tuple(SimpleNamespace(id=name, emulated=False) for name in names)
    whole = UnionPlan("all", records)
    return RunPlan(records, (whole, *(UnionPlan(one.id, (one,)) for one in records)), ())


@given(names=IDS, count=COUNTS)
def test_fractions_are_disjoint_and_together_all(names: list[str], count: int) -> None:
    parts = [split(planned(names), (index, count)) for index in range(1, count + 1)]
    judged = [record.id for part in parts for record in part.records]
    assert sorted(judged) == sorted(names)
    for part in parts:
        assert sorted([*part.aside, *(record.id for record in part.records)]) == sorted(names)


@given(names=IDS, count=COUNTS, data=st.data())
def test_record_stays_in_its_fraction_whatever_else_is_selected(names: list[str], count: int, data: Any) -> None:
    fewer = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    for index in range(1, count + 1):
        kept = {record.id for record in split(planned(names), (index, count)).records}
        assert {record.id for record in split(planned(fewer), (index, count)).records} == kept & set(fewer)


@given(names=IDS, count=COUNTS)
def test_union_is_judged_where_all_its_records_are(names: list[str], count: int) -> None:
    parts = [split(planned(names), (index, count)) for index in range(1, count + 1)]
    unions = [union.name for part in parts for union in part.unions if union.records]
    together = len({share_of(name, count) for name in names}) == 1
    assert sorted(unions) == sorted([*names, *(["all"] if together else [])])


def test_shares_are_even_and_fixed() -> None:
    names = [f"ffn-fast-host{n}-w16a32-cpu@eager.decode.real.hot" for n in range(4000)]
    shares = [share_of(name, 4) for name in names]
    assert all(900 < shares.count(index) < 1100 for index in (1, 2, 3, 4))
    assert shares[:6] == FIXED


def test_no_fraction_is_the_whole_plan() -> None:
    plan = planned(["a", "b"])
    assert split(plan, None) is plan
