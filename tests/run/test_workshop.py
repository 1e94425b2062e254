"""A run's folder and fork server: made before planning where this process judges, and gone with the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt import plugin
from pytest_frt.run.workshop import Workshop


def config(*, collect: bool = False, tx: list[str] | None = None, worker: bool = False, judges: int = 1) -> Any:
    hook = SimpleNamespace(pytest_frt_judge=SimpleNamespace(get_hookimpls=lambda: [object()] * judges))
    made = SimpleNamespace(option=SimpleNamespace(collectonly=collect, tx=tx), hook=hook)
    if worker:
        made.workerinput = {}
    return made


@pytest.mark.parametrize(
    ("settings", "here"),
    [
        ({}, True),
        ({"collect": True}, False),
        ({"tx": ["popen"]}, False),
        ({"worker": True, "tx": ["popen"]}, True),
        ({"judges": 2}, False),
    ],
    ids=["alone", "collecting", "controller", "worker", "somebody else judges"],
)
def test_where_the_server_is_started_ahead(settings: dict[str, Any], here: bool) -> None:  # noqa: FBT001
    assert plugin._judges_here(config(**settings)) is here


def test_closing_twice_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shop = Workshop.of({}, 1)
    assert shop.root.parent == tmp_path
    shop.close()
    shop.close()
    assert not list(tmp_path.iterdir())
