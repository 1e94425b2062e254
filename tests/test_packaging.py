"""The wheel holds everything and nothing at top level; the installed metadata loads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution, entry_points
from inspect import signature
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from repo_tree import files
from setuptools import find_packages

MAPPED = ("catalog", "impls", "hosts", "csrc")
GROUPS = (
    "pytest11",
    "console_scripts",
    *(f"pytest_frt.{kind}" for kind in ("catalog", "impls", "hosts", "devices", "schemes")),
)
DATA_SUFFIXES = {
    ".py", ".yaml", ".json", ".toml", ".cu", ".cuh", ".cpp", ".c", ".h", ".hpp", ".j2", ".css", ".js", ".txt", ".md",
}  # fmt: skip


def build(source: Path, out: Path, kind: str) -> Path:
    """Build ``kind`` (``wheel`` or ``sdist``) of ``source`` with the installed build backend; no index is asked."""
    command = [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def source(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what a clean clone holds, so that building leaves nothing in the tree under test."""
    copy = tmp_path_factory.mktemp("source") / "clone"
    skipped = shutil.ignore_patterns(
        "__pycache__", ".*_cache", ".git", ".venv", "build-*", "dist", "*.egg-info", "*.so", "torch-stable-abi*"
    )
    shutil.copytree(repository, copy, ignore=skipped)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    """Build the wheel once and open it."""
    with ZipFile(build(source, tmp_path_factory.mktemp("wheel"), "wheel")) as opened:
        yield opened


@pytest.fixture(scope="module")
def settings(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_is_listed(repository: Path, settings: dict[str, Any]) -> None:
    found = {"pytest_frt", *(f"pytest_frt.{name}" for name in find_packages(str(repository / "pytest_frt")))}
    assert set(settings["tool"]["setuptools"]["packages"]) == found | {f"pytest_frt.{name}" for name in MAPPED}


def test_every_folder_of_modules_is_a_package(repository: Path) -> None:
    folders = {path.parent for path in (repository / "pytest_frt").rglob("*.py")}
    assert sorted(folder for folder in folders if not (folder / "__init__.py").is_file()) == []


@pytest.mark.parametrize("name", MAPPED)
def test_no_folder_shadows_a_mapped_package(repository: Path, name: str) -> None:
    assert not (repository / "pytest_frt" / name).exists()


@pytest.mark.parametrize("name", ["catalog", "impls", "hosts"])
def test_entry_folders_need_no_init(repository: Path, name: str) -> None:
    assert [path.parent.name for path in (repository / name).glob("*/__init__.py")] == []


def test_wheel_puts_one_name_at_top_level(wheel: ZipFile) -> None:
    roots = {name.partition("/")[0] for name in wheel.namelist()}
    assert {root for root in roots if not root.endswith(".dist-info")} == {"pytest_frt"}
    (top_level,) = (name for name in wheel.namelist() if name.endswith("/top_level.txt"))
    assert wheel.read(top_level).decode().split() == ["pytest_frt"]


def test_wheel_holds_every_shipped_file(source: Path, wheel: ZipFile) -> None:
    shipped = [
        path.relative_to(source) for path in files(source, ("pytest_frt", *MAPPED)) if path.suffix in DATA_SUFFIXES
    ]
    wanted = {str("pytest_frt" / path if path.parts[0] in MAPPED else path) for path in shipped}
    assert sorted(wanted - set(wheel.namelist())) == []
    assert "pytest_frt/py.typed" in wheel.namelist()


def test_wheel_is_pure(wheel: ZipFile) -> None:
    assert Path(str(wheel.filename)).name.endswith("-py3-none-any.whl")
    assert [name for name in wheel.namelist() if name.endswith((".so", ".pyc"))] == []


def test_new_entry_folder_is_shipped_without_an_edit(source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "clone"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("tests", "docs"))
    (copy / "tests").mkdir()
    (copy / "docs").mkdir()
    for name in ("catalog/acme_norm/structure.yaml", "impls/acme_norm/acme.py", "hosts/acme/host.yaml"):
        (copy / name).parent.mkdir(parents=True)
        (copy / name).touch()
    with ZipFile(build(copy, tmp_path / "out", "wheel")) as opened:
        held = [name for name in opened.namelist() if "acme" in name]
    assert sorted(held) == [
        "pytest_frt/catalog/acme_norm/structure.yaml",
        "pytest_frt/hosts/acme/host.yaml",
        "pytest_frt/impls/acme_norm/acme.py",
    ]


def test_wheel_runs_alone(wheel: ZipFile, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    wheel.extractall(site)
    empty.mkdir()
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import importlib.util, pytest_frt, pytest_frt.catalog, pytest_frt.csrc\n"
        "from importlib.resources import files\n"
        "assert pytest_frt.__file__.startswith(sys.argv[1]), pytest_frt.__file__\n"
        "assert files('pytest_frt.csrc').is_dir()\n"
        "assert not [n for n in ('catalog', 'impls', 'hosts', 'csrc') if importlib.util.find_spec(n)]\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, str(site)], cwd=empty, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_source_distribution_makes_the_same_wheel(source: Path, wheel: ZipFile, tmp_path: Path) -> None:
    # Python before 3.11.4 has no filter.
    checked: dict[str, Any] = {"filter": "data"} if "filter" in signature(shutil.unpack_archive).parameters else {}
    shutil.unpack_archive(build(source, tmp_path / "sdist", "sdist"), tmp_path / "unpacked", **checked)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert (unpacked / "conftest.py").is_file()
    assert (unpacked / "tests" / "test_packaging.py").is_file()
    with ZipFile(build(unpacked, tmp_path / "wheel", "wheel")) as again:
        assert sorted(again.namelist()) == sorted(wheel.namelist())


@pytest.mark.parametrize("group", GROUPS)
def test_entry_point_loads(group: str) -> None:
    ours = [point for point in entry_points(group=group) if point.dist and point.dist.name == "pytest-frt"]
    assert [point.name for point in ours] == ["frt"]
    assert ours[0].load() is not None


def test_installed_metadata_is_current(settings: dict[str, Any]) -> None:
    assert distribution("pytest-frt").version == settings["project"]["version"]


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_roots_are_not_importable_bare(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import {name}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"No module named '{name}'" in done.stderr
