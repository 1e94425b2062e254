"""What the code imports is what the package metadata declares."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from import_scan import MAPPED_ROOTS, PACKAGE, Import, imports
from repo_tree import files

EXTRAS_OF = {PACKAGE: ("report", "sigstore"), "hosts": ("hosts",), "impls": (), "catalog": ()}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(repository: Path, extras: tuple[str, ...]) -> set[str]:
    """Return the names of the core dependencies and those of ``extras``."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    return {normalised(re.split(r"[<>=!~\[; ]", one, maxsplit=1)[0]) for one in wanted}


def foreign_imports(repository: Path, folder: str) -> list[tuple[Path, Import]]:
    """Return every import of neither the standard library nor our own modules below ``folder``."""
    ours = {PACKAGE, *MAPPED_ROOTS, ""}
    python = [path for path in files(repository, (folder,)) if path.suffix == ".py"]
    used = [(path, one) for path in python for one in imports(path, repository)]
    return [(path, one) for path, one in used if one.root not in sys.stdlib_module_names | ours]


@pytest.mark.parametrize("folder", EXTRAS_OF)
def test_every_import_is_declared(repository: Path, folder: str) -> None:
    known, names = declared(repository, EXTRAS_OF[folder]), packages_distributions()
    missing = [
        f"{path.relative_to(repository)}:{one.line} {one.target}"
        for path, one in foreign_imports(repository, folder)
        if known.isdisjoint(normalised(name) for name in names.get(one.root, [one.root]))
    ]
    assert missing == []


def test_an_extra_is_imported_where_it_is_used(repository: Path) -> None:
    core, names = declared(repository, ()), packages_distributions()
    early = [
        f"{path.relative_to(repository)}:{one.line} {one.target}"
        for path, one in foreign_imports(repository, PACKAGE)
        if one.at_import and core.isdisjoint(normalised(name) for name in names.get(one.root, [one.root]))
    ]
    assert early == []


@pytest.mark.parametrize(
    "extras",
    [(), ("hosts",), ("vla",), ("groot",), ("report",), ("sigstore",)],
    ids=["core", "hosts", "vla", "groot", "report", "sigstore"],
)
def test_runtime_dependencies_have_both_bounds(repository: Path, extras: tuple[str, ...]) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    assert [one for one in wanted if not ("==" in one or (">=" in one and "<" in one))] == []
