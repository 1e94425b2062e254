"""``frt report``: a page of a JSON report, or one message that says why not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.report import drawing, html
from tests.report import page_world as world

Frt = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return world.report(tmp_path_factory.mktemp("report"))


def test_page_goes_beside_the_report_or_where_it_is_told(frt: Frt, tmp_path: Path, report: dict[str, Any]) -> None:
    (tmp_path / "run.json").write_text(json.dumps(report))
    assert frt("report", "run.json")[:2] == (0, "run.html\n")
    assert frt("report", "run.json", "-o", "page.html")[:2] == (0, "page.html\n")
    assert (tmp_path / "run.html").read_bytes() == (tmp_path / "page.html").read_bytes() == html.render(report)


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "absent": (None, "run.json: cannot be read"),
        "no_json": ("{", "run.json: no JSON"),
        "no_report": ("[]", "schema None, this version reads 'frt-report/2'"),
        "older": ('{"schema": "frt-report/1"}', "schema 'frt-report/1', this version reads 'frt-report/2'"),
        "broken": ('{"schema": "frt-report/2"}', "is a required property"),
    }.values(),
    ids=["absent", "no_json", "no_report", "older", "broken"],
)
def test_what_is_no_report_is_a_usage_fault(frt: Frt, tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    status, out, err = frt("report", "run.json")
    assert (status, out) == (4, "")
    assert said in err
    assert "next: " in err
    assert not (tmp_path / "run.html").exists()


def test_missing_extra_is_named(frt: Frt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda _: None)
    status, _, err = frt("report", "run.json")
    assert status == 4
    assert "pip install 'pytest-frt[report]'" in err


def test_page_is_made_without_torch_and_pytest(tmp_path: Path, report: dict[str, Any]) -> None:
    (tmp_path / "run.json").write_text(json.dumps(report))
    made = "import sys\nfrom pytest_frt.cli import main\nmain(['report', 'run.json'])\n"
    script = f"{made}print({{'torch', 'pytest'}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["run.html", "set()"]
