"""Certified files as private copies: every byte is hashed while it is copied, and only the copies are used.

Files are found through the registry and through paths the deployer gives. Where they lie gives no trust. All files of
a certificate are copied before anything of it is executed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from pytest_frt.certs import store
from pytest_frt.certs.files import storage
from pytest_frt.certs.tree import KERNEL, copy_verified, refusing, role_files
from pytest_frt.contracts.record import Record
from pytest_frt.errors import CertificateRefused
from pytest_frt.registry import Registry
from pytest_frt.seat.kernel_build import KernelBuild, is_own, read_build, resolve

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


@dataclass(frozen=True, slots=True)
class KernelCopy:
    """The verified copy of a kernel build.

    Attributes:
        build: The copy, as it is loaded.
        origin: Folder it was copied from.
    """

    build: KernelBuild
    origin: Path


@dataclass(frozen=True, slots=True)
class Copies:
    """Verified copies of everything that a certificate names.

    Attributes:
        structure: Folder with structure.yaml, the reference and the cases.
        impl: The impl's import closure.
        host: The host entry's files.
        artefact: The calibration artefact; None when the record has none.
        kernel: The kernel build.
    """

    structure: Path
    impl: CodeCopy
    host: CodeCopy
    artefact: Path | None
    kernel: KernelCopy


def copy_all(record: Record, places: Places) -> Copies:
    """Copy all files of a certificate; nothing is executed.

    Raises:
        CertificateRefused: ``ROLE_FILE``, ``KERNEL_TREE``, ``ARTEFACT``, ``TREE_*`` or ``NAME``: a file is missing, is
            not the certified one or is none that can be bound.
        UsageFault: an entry that the record names is not installed.
        ProviderBroken: it could not be read.
        KernelUnavailable: no build of the kernel is at hand.
        KernelRefused: the metadata of the kernel cannot be used.
    """
    check_scheme(record, places)
    return Copies(
        structure=structure_copy(record, places),
        artefact=artefact_copy(record, places),
        impl=impl_copy(record, places),
        host=host_copy(record, places),
        kernel=kernel_copy(record, places),
    )


_ROOTS: Final[dict[int, Path]] = {}
"""Process id to the folder of its copies. A forked process may use those of its parent, and makes its own elsewhere."""


def _private_root() -> Path:
    # Kept until the process ends: loaded modules and libraries may read their files again.
    process = os.getpid()
    if process not in _ROOTS:
        with storage(Path(tempfile.gettempdir())):
            _ROOTS[process] = Path(tempfile.mkdtemp(prefix="frt-verified-")).resolve()
        atexit.register(_remove, process)
    return _ROOTS[process]


def _remove(process: int) -> None:
    if os.getpid() == process:  # a forked process that ends must leave what its parent runs on
        shutil.rmtree(_ROOTS[process], ignore_errors=True)


def is_private(folder: Path) -> bool:
    """Return whether a folder is one of the copies made here."""
    return any(folder.is_relative_to(root) for root in _ROOTS.values())


def _fresh(name: str) -> Path:
    parent = _private_root() / str(next(_NUMBER))
    with storage(parent):
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


def kernel_copy(record: Record, places: Places) -> KernelCopy:
    """Copy the kernel build.

    Raises:
        CertificateRefused: ``KERNEL_TREE``, ``TREE_*`` or ``NAME``.
        KernelUnavailable: no build of it is at hand.
        KernelRefused: its metadata cannot be used.
    """
    repo, kind = record.kernel.repo, record.device.kind
    with refusing(repo):
        origin = resolve(repo, local=places.kernels, backend=kind).folder
    expected = role_files(record.subjects, KERNEL)
    # An installer compiles what it installs: from our own folder the certified files are taken, nothing else runs.
    role = "kernel files" if is_own(origin) else KERNEL
    digest = record.kernel.tree_digest
    copy = copy_verified(origin, expected, _fresh(record.kernel.variant), role=role, tree=digest)
    build = read_build(repo, copy, backend=kind)
    if build.facts.tree_digest != digest:
        raise CertificateRefused(
            "KERNEL_TREE", f"kernel tree is certified as {digest}, the copy has {build.facts.tree_digest}"
        )
    return KernelCopy(build, origin)


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
