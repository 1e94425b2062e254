"""``--frt-record``: globs over record ids; an unsupported cell they name stays a row, a typo is a usage fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt.cell import Cell
from pytest_frt.errors import UsageFault
from pytest_frt.expand import NotSupported
from pytest_frt.run.config import Selection
from pytest_frt.run.plan import _by_id

IDS = ("ffn-fast-toy-w16a32-cpu@eager.decode.real.hot", "qkv-fast-toy-w16a32-cpu@eager.prefill.real.hot")
ABSENT = [NotSupported(Cell.parse(f"{name}-fast-toy-w16a32-thor"), "no such device") for name in ("ffn", "qkv")]


def keep(*globs: str, drop: tuple[str, ...] = ()) -> tuple[list[str], list[str]]:
    sides = ({"record": globs} if globs else {}, {"record": drop} if drop else {})
    records: list[Any] = [SimpleNamespace(id=name) for name in IDS]
    config: Any = SimpleNamespace(selection=Selection(*sides))
    kept, absent = _by_id(config, records, ABSENT)
    return [one.id for one in kept], [row.cell.structure for row in absent]


def test_no_glob_keeps_everything() -> None:
    assert keep() == ([*IDS], ["ffn", "qkv"])


def test_globs_keep_records_and_the_cells_they_name() -> None:
    assert keep("ffn-*@*.decode.*") == ([IDS[0]], ["ffn"])
    assert keep("*-cpu@*", drop=("qkv*",)) == ([IDS[0]], [])


def test_glob_of_an_absent_device_is_a_row_and_no_fault() -> None:
    assert keep("qkv-*-thor@*") == ([], ["qkv"])


@pytest.mark.parametrize(
    ("glob", "said"),
    [
        (IDS[0].replace("ffn", "fnn"), f"did you mean '{IDS[0]}'"),
        ("fnf-*", "did you mean 'ffn-*'"),
        ("*-cpu@*.decod.*", "did you mean '*-cpu@*.decode.*'"),
        ("zzz*", "--collect-only names all 2"),
    ],
    ids=["typo", "typo_beside_a_wildcard", "typo_behind_the_cell", "nothing_like_it"],
)
def test_glob_that_matches_nothing_is_a_usage_fault(glob: str, said: str) -> None:
    with pytest.raises(UsageFault, match="matches no record") as caught:
        keep(glob)
    assert said in caught.value.diagnostics()
