"""Build a noarch kernel project: copy its Python sources and add the two files that name the build.

The result depends on the sources and build.toml alone, so anyone can build it again and compare bytes. A compiled
project shares all of this but its library; see ``compiled``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_frt.errors import SpecError
from pytest_frt.spec.tree import tree_digest, tree_files

ID_DIGITS: Final = 7  # as many as kernel-builder takes of a commit
OPS_FILE: Final = "_ops.py"
METADATA_FILE: Final = "metadata.json"
_OPS_TEMPLATE: Final = '''"""Written by the builder: the namespace of this build's ops."""

import torch
{library}
ops = torch.ops.{id}


def add_op_namespace_prefix(op_name: str) -> str:
    """Return the full name of an op of this build."""
    return f"{id}::{{op_name}}"
'''


@dataclass(frozen=True, slots=True)
class Project:
    """A kernel project as its build.toml states it.

    Attributes:
        folder: Where build.toml is.
        name: Kernel name, e.g. ``frt-cpu``.
        version: Integer version.
        license: SPDX id.
        backends: Backends it is built for, e.g. ``("cpu",)``.
        repo: Repo id it would be published under.
        document: The whole of build.toml.
    """

    folder: Path
    name: str
    version: int
    license: str
    backends: tuple[str, ...]
    repo: str
    document: Mapping[str, Any]

    @property
    def compiled(self) -> bool:
        """Whether it is compiled rather than copied."""
        return "torch-noarch" not in self.document

    @property
    def sources(self) -> Path:
        """Folder of the Python sources."""
        return self.folder / "torch-ext" / self.name.replace("-", "_")


def read_project(folder: Path) -> Project:
    """Read ``build.toml`` of a kernel project.

    Raises:
        SpecError: the file is missing, is no TOML, or lacks a field.
    """
    file = folder / "build.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        general = document["general"]
        return Project(
            folder=folder,
            name=str(general["name"]),
            version=int(general["version"]),
            license=str(general["license"]),
            backends=tuple(map(str, general["backends"])),
            repo=str(general["hub"]["repo-id"]),
            document=document,
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as fault:
        raise SpecError(f"{file} cannot be read: {fault!r}", hint="compare it with csrc/*/build.toml") from fault


def build_id(project: Project) -> str:
    """Return the id that a build of a noarch project has.

    Raises:
        TreeInvalid: the sources hold a link or an odd name.
    """
    return f"{project.sources.name}_{tree_digest(tree_files(project.sources, leave_bytecode=True))[:ID_DIGITS]}"


def build_noarch(project: Project, out: Path) -> tuple[Path, ...]:
    """Write one variant folder per backend into ``out`` and return them.

    Args:
        project: What to build.
        out: The ``build`` folder; variant folders of the same name in it are replaced.

    Raises:
        TreeInvalid: the sources hold a link or an odd name.
        SpecError: the project is no noarch project, or its sources hold a file that the builder writes.
    """
    if project.compiled:
        raise SpecError(f"{project.folder / 'build.toml'} has no [torch-noarch]: it is compiled, not copied")
    variants = {out / f"torch-{backend}": backend for backend in project.backends}
    for variant, backend in variants.items():
        with replacing(variant) as fresh:
            write_python(project, fresh, build_id(project), backend)
    return tuple(variants)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``target`` when all went well, and else leaves it as it was."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".frt-build-") as scratch:
        fresh = Path(scratch, target.name)
        fresh.mkdir()
        yield fresh
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)


def write_python(project: Project, variant: Path, name: str, backend: str, library: str = "") -> None:
    """Write the Python sources, the namespace of the ops, and what ``kernels`` reads of a build before it imports it.

    Args:
        project: What is built.
        variant: Folder to write into.
        name: Id of the build.
        backend: Its backend.
        library: Line that loads a compiled library.

    Raises:
        TreeInvalid: the sources hold a link or an odd name.
        SpecError: they hold a file that the builder writes.
    """
    for file in tree_files(project.sources, leave_bytecode=True):
        if file.name in {OPS_FILE, METADATA_FILE}:
            raise SpecError(f"{project.sources / file.name} is written by the builder", hint="delete it")
        target = variant / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((project.sources / file.name).read_bytes())
    metadata = {
        "id": name,
        "name": project.name,
        "version": project.version,
        "license": project.license,
        "python-depends": [],
        "backend": {"type": backend},
    }
    (variant / METADATA_FILE).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    (variant / OPS_FILE).write_text(_OPS_TEMPLATE.format(id=name, library=library), encoding="utf-8")
