"""An entry is a folder and nothing else: in a package of one's own, or beside ours, it appears with no other edit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pytest_frt.registry import Provider, Registry

Install = Callable[[str, Mapping[str, str]], Path]
Files = Callable[..., dict[str, str]]
LIST = "import sys; sys.path.insert(0, {site!r}); from pytest_frt.cli import main; sys.exit(main(['list', '--json']))"


def listed(site: Path) -> dict[str, list[dict[str, str]]]:
    """Return what ``frt list`` shows in a fresh interpreter that also sees ``site``."""
    script = LIST.format(site=str(site))
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    found: dict[str, list[dict[str, str]]] = json.loads(done.stdout)
    return found


def test_outside_package_appears_in_frt_list(install: Install, toy: Files) -> None:
    found = listed(install("acme", toy()).parent)
    mine = {kind: [one["name"] for one in rows if one.get("from") == "acme 1.0"] for kind, rows in found.items()}
    assert mine == {
        "structures": ["toy"],
        "pipelines": [],
        "impls": ["fast"],
        "hosts": ["box"],
        "devices": ["abacus"],
        "schemes": ["exact"],
        "broken": [],
    }
    assert "decoder_ffn" in {one["name"] for one in found["structures"]}


@pytest.mark.parametrize(
    ("group", "like", "table"), [("catalog", "decoder_ffn", "structures"), ("hosts", "qwen3", "hosts")]
)
def test_folder_added_beside_ours_appears(repository: Path, tmp_path: Path, group: str, like: str, table: str) -> None:
    tree = tmp_path / group
    shutil.copytree(repository / group, tree, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(tree / like, tree / "added")
    main = tree / "added" / ("structure.yaml" if group == "catalog" else "host.yaml")
    main.write_text(main.read_text().replace(f"name: {like}", "name: added"))
    found = Registry.of([Provider(group, f"pytest_frt.{group}", "pytest-frt", tree)])
    assert found.broken == ()
    assert set(getattr(found, table)) == {*getattr(Registry.load(), table), "added"}


def test_impl_added_beside_ours_appears(repository: Path, tmp_path: Path) -> None:
    tree = tmp_path / "impls"
    shutil.copytree(repository / "impls", tree, ignore=shutil.ignore_patterns("__pycache__"))
    text = (tree / "decoder_ffn" / "torch_packed.py").read_text()
    (tree / "decoder_ffn" / "added.py").write_text(text.replace('name="torch_packed"', 'name="added"'))
    found = Registry.of([Provider("impls", "pytest_frt.impls", "pytest-frt", tree)])
    assert set(found.impls) == {*Registry.load().impls, "decoder_ffn/added"}


@pytest.mark.parametrize("group", ["catalog", "impls", "hosts", "devices", "schemes"])
def test_package_without_an_entry_is_told(tmp_path: Path, group: str) -> None:
    (tmp_path / "__init__.py").write_text("")
    (fault,) = Registry.of([Provider(group, f"acme.{group}", "acme 1.0", tmp_path)]).broken
    assert (fault.group, fault.name, fault.provider) == (group, f"acme.{group}", "acme 1.0")
    assert f"{tmp_path} holds no entry of {group}" in fault.reason
