"""``frt compare``: exit status 1 when anything got worse, 0 when nothing did, 4 for what is no report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Frt = Callable[..., tuple[int, str, str]]
NAME = "ffn-fast-toy-w16a32-cpu@eager.decode.real.hot"


def report(path: Path, outcome: str, pooled: float, names: tuple[str, ...] = (NAME,)) -> None:
    """Write what a comparison reads of a report."""

    def number(metric: str, value: float) -> dict[str, Any]:
        return {"metric": metric, "value": value, "op": ">", "required": 1.02, "n": 24, "at": ""}

    numbers = [number("pooled_median", pooled), number("interval_low", pooled - 0.05)]
    numbers.append(number("interval_high", pooled + 0.05))
    verdict = {"type": "Pass", "gate": "net_win", "measured": numbers}
    records = [{"id": name, "outcome": outcome, "gates": {"net_win": {"verdict": verdict}}} for name in names]
    content = {"schema": "frt-report/1", "machine": [{"name": "Some CPU"}], "records": records, "unions": []}
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("outcome", "pooled", "words", "status", "said"),
    [
        ("CERTIFIED", 1.31, [], 0, "1 compared, 0 worse, 0 new, by outcome, ratio"),
        ("CERTIFIED", 1.15, [], 1, f"WORSE {NAME} [ratio] ratio 1.310x before, 1.150x now (-12.2 %"),
        ("REFUSED", 1.31, [], 1, f"WORSE {NAME} [outcome] CERTIFIED before, REFUSED now"),
        ("CERTIFIED", 1.25, ["--fail", "ratio:2%"], 1, f"WORSE {NAME} [ratio:2%]"),
        ("CERTIFIED", 1.25, ["--fail", "ratio:5%,outcome"], 0, "0 worse"),
    ],
    ids=["same", "slower", "refused", "by_share", "within_share"],
)
def test_status_says_whether_anything_got_worse(
    frt: Frt, outcome: str, pooled: float, words: list[str], status: int, said: str
) -> None:
    report(Path("a.json"), "CERTIFIED", 1.31)
    report(Path("b.json"), outcome, pooled)
    found, out, _ = frt("compare", "a.json", "b.json", *words)
    assert found == status
    assert said in out


def test_record_that_is_gone_is_worse(frt: Frt) -> None:
    report(Path("a.json"), "CERTIFIED", 1.31)
    report(Path("b.json"), "CERTIFIED", 1.31, names=())
    status, out, _ = frt("compare", "a.json", "b.json", "--json")
    assert status == 1
    assert [one["text"] for one in json.loads(out)["worse"]] == ["CERTIFIED before, not judged now"]


def test_file_that_is_no_report_is_a_usage_fault(frt: Frt) -> None:
    Path("a.json").write_text("{}")
    status, _, err = frt("compare", "a.json", "a.json")
    assert status == 4
    assert "a.json is no JSON report of a run" in err
