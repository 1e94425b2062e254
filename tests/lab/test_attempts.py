"""Only consecutive attempts that did not pass count, and nobody loses the count by damaging its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.errors import EvidenceError
from pytest_frt.lab.attempts import FILE, Attempts


def test_non_passes_add_up_over_processes(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        assert Attempts(tmp_path).next("a", "d1") == expected
        Attempts(tmp_path).note("a", "d1", passed=False)
    assert Attempts(tmp_path).next("b", "d1") == 1


@pytest.mark.parametrize(("digest", "passed"), [("d1", True), ("d2", False)], ids=["pass", "new_bytes"])
def test_count_starts_again(tmp_path: Path, digest: str, passed: bool) -> None:  # noqa: FBT001
    ledger = Attempts(tmp_path)
    for _ in range(2):
        ledger.note("a", "d1", passed=False)
    ledger.note("a", digest, passed=passed)
    assert ledger.next("a", digest) == (1 if passed else 2)


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda file: file.write_text('{"schema": 1, "records": {}}')],
    ids=["removed", "emptied"],
)
def test_run_remembers_what_a_program_takes_away(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    Attempts(tmp_path).note("a", "d1", passed=False)
    ledger = Attempts(tmp_path)
    spoil(tmp_path / FILE)
    assert ledger.next("a", "d1") == 2
    ledger.note("a", "d1", passed=False)
    spoil(tmp_path / FILE)
    assert ledger.next("a", "d1") == 3
    ledger.note("a", "d1", passed=True)
    assert ledger.next("a", "d1") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schema": 1}',
        '{"schema": 2, "records": {}}',
        '{"schema": 1, "records": {"a": {"digest": "d", "non_passes": -1}}}',
    ],
    ids=["empty", "list", "no_records", "other_schema", "negative"],
)
def test_damaged_ledger_is_a_fault(tmp_path: Path, text: str) -> None:
    (tmp_path / "attempts.json").write_text(text)
    with pytest.raises(EvidenceError, match="damaged"):
        Attempts(tmp_path).next("a", "d")
