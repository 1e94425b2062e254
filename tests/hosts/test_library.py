"""The host libraries are imported late, and their chatter is silenced for a moment only."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt.errors import MissingExtra

HOSTS = Path(__file__).resolve().parents[2] / "hosts"
library: Any = import_module("pytest_frt.hosts._shared.library")


@pytest.mark.parametrize("module", ["absent_package", "absent_package.part"])
def test_absent_package_is_a_missing_extra(module: str) -> None:
    with pytest.raises(MissingExtra, match="needs the package absent_package") as caught:
        library.require(module)
    assert "pip install" in caught.value.hint


def test_broken_package_is_not_called_absent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "broken_host_library.py").write_text("import absent_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="absent_dependency"):
        library.require("broken_host_library")


@pytest.mark.parametrize("bars", ["enable", "disable"])
def test_quiet_restores_what_it_changed(bars: str) -> None:
    settings = import_module("transformers.utils.logging")
    getattr(settings, f"{bars}_progress_bar")()
    before = settings.get_verbosity(), settings.is_progress_bar_enabled()

    def fail_inside() -> None:
        with library.quiet():
            assert not settings.is_progress_bar_enabled()
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert (settings.get_verbosity(), settings.is_progress_bar_enabled()) == before
    settings.enable_progress_bar()


def test_replaced_names_are_given_back_whatever_happens() -> None:
    module = SimpleNamespace(name="own", other=1)

    def fail_inside() -> None:
        with library.replaced(module, name="answer"):
            assert vars(module) == {"name": "answer", "other": 1}
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert vars(module) == {"name": "own", "other": 1}


def test_building_a_host_says_nothing(tiny: Any, tmp_path: Any, request_for: Any, capfd: Any) -> None:
    tiny.model.save_pretrained(tmp_path / "saved")
    capfd.readouterr()
    tiny.program.build(request_for(checkpoint=str(tmp_path / "saved")))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("file", sorted(HOSTS.rglob("*.py")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_heavy_library_is_imported_where_it_is_used(file: Path) -> None:
    top = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module for node in top if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    assert not {"transformers", "tokenizers", "gguf"} & {(name or "").partition(".")[0] for name in names}
