"""Certified files as private copies: every byte is hashed while it is copied, and only the copies are used.

Files are found through the registry and through paths the deployer gives. Where they lie gives no trust.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Final

from pytest_frt.certs import store
from pytest_frt.certs.tree import KERNEL, copy_verified, role_files
from pytest_frt.contracts.record import Record
from pytest_frt.errors import CertificateRefused
from pytest_frt.registry import Registry
from pytest_frt.seat.kernel_build import is_own, resolve

_NUMBER: Final = count()


@dataclass(frozen=True, slots=True)
class Places:
    """Where certified files are looked for.

    Attributes:
        registry: Installed entries.
        kernels: Kernel repo id to a local build of it.
        artefacts: Certificate paths; calibration artefacts lie beside certificates.
    """

    registry: Registry
    kernels: Mapping[str, Path]
    artefacts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class CodeCopy:
    """Verified copies of an entry's files.

    Attributes:
        package: Dotted package the entry's provider installs them as; empty for a folder.
        folder: Private folder that stands for the provider's folder.
        main: Path of the entry's own module below it.
        files: Path below ``folder`` to sha256.
    """

    package: str
    folder: Path
    main: str
    files: Mapping[str, str]


@lru_cache(maxsize=1)
def _private_root() -> tempfile.TemporaryDirectory[str]:
    # Kept until the process ends: loaded modules and libraries may read their files again.
    return tempfile.TemporaryDirectory(prefix="frt-verified-")


def _fresh(name: str) -> Path:
    parent = Path(_private_root().name) / str(next(_NUMBER))
    parent.mkdir(mode=0o700)
    return parent / name


def impl_copy(record: Record, places: Places) -> CodeCopy:
    """Copy the impl's import closure.

    Raises:
        CertificateRefused: ``ROLE_FILE``: a file is missing or differs.
        UsageFault: no such impl is installed.
        ProviderBroken: it could not be read.
    """
    entry = places.registry.impl(record.key.cell.structure, record.key.cell.impl)
    main = entry.file.relative_to(entry.provider.folder).as_posix()
    return _code(record, "impl", entry.provider.package, entry.provider.folder, main)


def host_copy(record: Record, places: Places) -> CodeCopy:
    """Copy the host entry's files; raises like :func:`impl_copy`."""
    entry = places.registry.host(record.key.cell.host)
    main = (entry.folder / "host.py").relative_to(entry.provider.folder).as_posix()
    return _code(record, "host", entry.provider.package, entry.provider.folder, main)


def _code(record: Record, role: str, package: str, folder: Path, main: str) -> CodeCopy:
    expected = role_files(record.subjects, role)
    if main not in expected:
        known = ", ".join(sorted(expected)) or "none"
        raise CertificateRefused("ROLE_FILE", f"{main} is installed as the {role}, certified are {known}")
    return CodeCopy(package, copy_verified(folder, expected, _fresh(role), role=role), main, expected)


def structure_copy(record: Record, places: Places) -> Path:
    """Copy structure.yaml, the reference and the cases into one folder; raises like :func:`impl_copy`."""
    entry = places.registry.structure(record.key.cell.structure)
    expected = role_files(record.subjects, "structure") | role_files(record.subjects, "reference")
    return copy_verified(entry.folder, expected, _fresh(record.key.cell.structure), role="structure")


def check_scheme(record: Record, places: Places) -> None:
    """Compare the scheme's file; it is not executed. Raises like :func:`impl_copy`."""
    expected = role_files(record.subjects, "scheme")
    if expected:
        entry = places.registry.scheme(record.key.cell.scheme)
        copy_verified(entry.file.parent, expected, _fresh("scheme"), role="scheme")


def kernel_copy(record: Record, places: Places) -> Path:
    """Copy the kernel build.

    Raises:
        CertificateRefused: ``KERNEL_TREE``, ``TREE_*`` or ``NAME``.
        KernelUnavailable: no build of it is at hand.
    """
    build = resolve(record.kernel.repo, local=places.kernels, backend=record.device.kind)
    expected = role_files(record.subjects, KERNEL)
    # An installer compiles what it installs: from our own folder the certified files are taken, nothing else runs.
    role = "kernel files" if is_own(build.folder) else KERNEL
    digest = record.kernel.tree_digest
    return copy_verified(build.folder, expected, _fresh(record.kernel.variant), role=role, tree=digest)


def artefact_copy(record: Record, places: Places) -> Path | None:
    """Copy the calibration artefact, if the record has one.

    Raises:
        CertificateRefused: ``ARTEFACT``: it is not there, or its bytes are others.
    """
    if record.calibration is None:
        return None
    data = store.read_artefact(places.artefacts, record.calibration.artefact)
    path = _fresh("scales.safetensors")
    path.write_bytes(data)
    return path
