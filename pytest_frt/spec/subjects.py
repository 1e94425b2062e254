"""Names of the files a certificate binds, for the record that states them and for the runtime that checks them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.errors import SpecError
from pytest_frt.spec.packages import first_party_roots, import_closure

if TYPE_CHECKING:
    from pytest_frt.spec.entries import HostEntry, ImplEntry, SchemeEntry, StructureEntry


def impl_subjects(entry: ImplEntry) -> dict[str, Path]:
    """Return ``impl/<path below its provider>`` for every file that executing the impl executes.

    Raises:
        SpecError: the impl imports a first-party file outside its provider's folder.
    """
    return _below("impl", entry.provider.folder, entry.closure)


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
    """Return ``host/<path below its provider>`` for host.yaml and every file that executing host.py executes.

    Raises:
        SpecError: the host imports a first-party file outside its provider's folder.
    """
    provider, main = entry.provider, entry.folder / "host.py"
    roots = first_party_roots(provider.package, provider.folder) if provider.package else {}
    return _below("host", provider.folder, (entry.folder / "host.yaml", *import_closure(main, roots)))


def _below(role: str, folder: Path, files: Iterable[Path]) -> dict[str, Path]:
    out: dict[str, Path] = {}
    for file in files:
        if not file.is_relative_to(folder):
            raise SpecError(
                f"{file} would be executed for its {role}, and lies outside {folder}",
                hint=f"keep what a certified {role} executes inside its own package",
            )
        out[f"{role}/{file.relative_to(folder).as_posix()}"] = file
    return out
