"""Where an installed package lies and which of its own files a module imports, without executing any of it."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path

from pytest_frt.errors import SpecError
from pytest_frt.spec.plain import read_plain

OWN_PACKAGE = "pytest_frt"
"""Our own modules are named by the digest of the checker; a closure holds an impl's own files only."""


def _subfolders(name: str, parents: list[str]) -> list[str]:
    """Return where a subpackage lies, without importing its parent.

    A folder below its parents is found by looking; only mapped and editable packages need their finder. The finder of
    plain folders is not asked: for a namespace package it would read the path of the parent, which is not imported.
    """
    on_disk = [str(folder) for parent in parents if (folder := Path(parent, name.rpartition(".")[2])).is_dir()]
    if on_disk:
        return on_disk
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, parents, None) if find is not None and finder is not PathFinder else None
        if spec is not None and spec.submodule_search_locations is not None:
            return list(spec.submodule_search_locations)
    return []


def package_folder(name: str) -> Path:
    """Return the folder of an installed package, editable or not, without executing it or its parents.

    Raises:
        SpecError: there is no such package, or it is no folder on disk.
    """
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.submodule_search_locations is None:
        raise SpecError(f"package {name!r} is not installed", hint="reinstall the distribution that names it")
    folders = list(spec.submodule_search_locations)
    dotted = top
    for part in rest:
        dotted = f"{dotted}.{part}"
        folders = _subfolders(dotted, folders)
    for folder in folders:
        if Path(folder).is_dir():
            return Path(folder).resolve()
    raise SpecError(f"package {name!r} has no folder on disk", hint="entries are read as files: install it unpacked")


def first_party_roots(package: str, folder: Path) -> dict[str, Path]:
    """Return dotted name to folder of a provider's own code: its top package, or ``package`` where that is ours."""
    roots = {package: folder}
    top = package.partition(".")[0]
    if top not in (OWN_PACKAGE, package):
        roots[top] = package_folder(top)
    return roots


def dotted_package(file: Path, roots: Mapping[str, Path]) -> str:
    """Return the dotted package of ``file`` under the first root that holds it, or an empty string."""
    for package, folder in roots.items():
        if file.is_relative_to(folder):
            return ".".join((package, *file.parent.relative_to(folder).parts))
    return ""


def has_relative_import(tree: ast.Module) -> bool:
    """Return whether a module needs to know its package."""
    return any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


@lru_cache(maxsize=1024)
def _imported(source: bytes, filename: str, package: str) -> tuple[str, ...]:
    """Return every dotted name a module may import: modules, and names that may be submodules."""
    try:
        return tuple(_imports_of(ast.parse(source, filename=filename), package))
    except (ValueError, RecursionError, MemoryError) as fault:  # null bytes, or nested beyond what the parser takes
        raise SpecError(f"{filename}: not readable as Python: {fault}") from fault


def _imports_of(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join((*parents, base)) if base else ".".join(parents)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _files_of(name: str, roots: Mapping[str, Path]) -> Iterator[Path]:
    """Yield the files that importing a first-party dotted name executes, outermost package first."""
    for package, folder in roots.items():
        if name != package and not name.startswith(f"{package}."):
            continue
        at = folder
        parts = name.removeprefix(package).strip(".").split(".") if name != package else []
        yield at / "__init__.py"
        for part in parts:
            yield at / f"{part}.py"
            at /= part
            yield at / "__init__.py"
        return


def import_closure(file: Path, roots: Mapping[str, Path]) -> tuple[Path, ...]:
    """Return the first-party files that executing ``file`` can execute, dependencies first, ``file`` last.

    Args:
        file: A module.
        roots: First-party dotted packages to their folders, the innermost first.

    Raises:
        SyntaxError: a file of the closure does not parse.
        SpecError: it holds null bytes, or is nested beyond what the parser takes.
        OSError: it cannot be read.
    """
    done: dict[Path, None] = {}
    entered: set[Path] = set()

    def visit(path: Path) -> None:
        if path in entered:
            return
        entered.add(path)
        for name in _imported(read_plain(path), str(path), dotted_package(path, roots)):
            for needed in _files_of(name, roots):
                if needed.is_file():
                    visit(needed.resolve())
        done[path] = None

    visit(file.resolve())
    return tuple(done)
