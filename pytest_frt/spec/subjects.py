"""Names of the files a certificate binds: one function for the record that states them and for the runtime that checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_frt.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_frt.spec.entries import HostEntry, ImplEntry, SchemeEntry, StructureEntry


def impl_subjects(entry: ImplEntry) -> dict[str, Path]:
    """Return ``impl/<path below its provider>`` for every file that executing the impl executes.

    Raises:
        SpecError: the impl imports a first-party file outside its provider's folder.
    """
    out: dict[str, Path] = {}
    for file in entry.closure:
        if not file.is_relative_to(entry.provider.folder):
            raise SpecError(
                f"{entry.file}: imports {file}, which lies outside {entry.provider.folder}",
                hint="keep what an impl executes inside its own impls package",
            )
        out[f"impl/{file.relative_to(entry.provider.folder).as_posix()}"] = file
    return out


def structure_subjects(entry: StructureEntry) -> dict[str, Path]:
    """Return the files that define what was judged against."""
    return {
        "structure/structure.yaml": entry.folder / "structure.yaml",
        "reference/reference.py": entry.reference_file,
        "reference/cases.py": entry.cases_file,
    }


def scheme_subjects(entry: SchemeEntry) -> dict[str, Path]:
    """Return the scheme's file."""
    return {f"scheme/{entry.name}.py": entry.file}


def host_subjects(entry: HostEntry) -> dict[str, Path]:
    """Return the host entry's files."""
    return {"host/host.yaml": entry.folder / "host.yaml", "host/host.py": entry.folder / "host.py"}
