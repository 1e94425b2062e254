"""Build a noarch kernel project: copy its Python sources and add the two files that name the build.

The result depends on the sources and build.toml alone, so anyone can build it again and compare bytes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
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
    """

    folder: Path
    name: str
    version: int
    license: str
    backends: tuple[str, ...]
    repo: str

    @property
    def sources(self) -> Path:
        """Folder of the Python sources."""
        return self.folder / "torch-ext" / self.name.replace("-", "_")


def read_project(folder: Path) -> Project:
    """Read ``build.toml`` of a noarch project.

    Raises:
        SpecError: the file is missing, is no TOML, lacks a field, or is no noarch project.
    """
    project, document = read_document(folder)
    if "torch-noarch" not in document:
        raise SpecError(f"{folder / 'build.toml'} has no [torch-noarch]: it is compiled, not copied", hint="frt build")
    return project


def read_document(folder: Path) -> tuple[Project, dict[str, Any]]:
    """Read ``build.toml`` of any kernel project, and return what all have in common and the whole document.

    Raises:
        SpecError: the file is missing, is no TOML, or lacks a field.
    """
    file = folder / "build.toml"
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        general = document["general"]
        project = Project(
            folder=folder,
            name=str(general["name"]),
            version=int(general["version"]),
            license=str(general["license"]),
            backends=tuple(map(str, general["backends"])),
            repo=str(general["hub"]["repo-id"]),
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as fault:
        raise SpecError(f"{file} cannot be read: {fault!r}", hint="compare it with csrc/*/build.toml") from fault
    return project, document


def build_noarch(project: Project, out: Path) -> tuple[Path, ...]:
    """Write one variant folder per backend into ``out`` and return them.

    Args:
        project: What to build.
        out: The ``build`` folder; variant folders of the same name in it are replaced.

    Raises:
        TreeInvalid: the sources hold a link or an odd name.
        SpecError: the sources hold a file that the builder writes.
    """
    files = tree_files(project.sources, leave_bytecode=True)
    for file in files:
        if file.name in {OPS_FILE, METADATA_FILE}:
            raise SpecError(f"{project.sources / file.name} is written by the builder", hint="delete it")
    build_id = f"{project.sources.name}_{tree_digest(files)[:ID_DIGITS]}"
    return tuple(_write(project, [file.name for file in files], build_id, backend, out) for backend in project.backends)


def _write(project: Project, names: list[str], build_id: str, backend: str, out: Path) -> Path:
    variant = out / f"torch-{backend}"
    shutil.rmtree(variant, ignore_errors=True)
    for name in names:
        target = variant / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((project.sources / name).read_bytes())
    write_metadata(project, variant, build_id, backend)
    (variant / OPS_FILE).write_text(_OPS_TEMPLATE.format(id=build_id), encoding="utf-8")
    return variant


def write_metadata(project: Project, variant: Path, build_id: str, backend: str) -> None:
    """Write what ``kernels`` reads of a build before it imports it."""
    metadata = {
        "id": build_id,
        "name": project.name,
        "version": project.version,
        "license": project.license,
        "python-depends": [],
        "backend": {"type": backend},
    }
    (variant / METADATA_FILE).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")


def main(folders: list[str]) -> int:
    """Build each project folder named on the command line in place."""
    for folder in folders:
        for variant in build_noarch(read_project(Path(folder)), Path(folder) / "build"):
            sys.stdout.write(f"{variant}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
