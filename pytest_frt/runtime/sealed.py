"""Compiled libraries in memory that nobody can write to any more, loaded in place of their verified copies.

Hashing a file and then loading it by path loads what lies there by then; an open handle does not help, since the file
can be rewritten in place. A sealed ``memfd`` cannot: its bytes are hashed after the seals are set, and it has no name
that could be taken over. Where the platform has none, the private copy is loaded.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import mmap
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from pytest_frt.errors import CertificateRefused
from pytest_frt.seat.kernel_build import KernelBuild

OPEN_FILES: Final = Path("/proc/self/fd")
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Sealed:
    """A library in sealed memory. Its handle stays open: loaders tell libraries apart by the number in its path.

    Attributes:
        file: The private copy it stands for.
        handle: Descriptor of the sealed memory.
    """

    file: Path
    handle: int

    @property
    def path(self) -> str:
        """Path that a loader opens the sealed memory by."""
        return str(OPEN_FILES / str(self.handle))


def seals() -> int:
    """Return the seals of this platform that together keep bytes as they are; 0 where there are none."""
    if sys.platform != "linux" or not hasattr(os, "memfd_create") or not OPEN_FILES.is_dir():
        return 0
    return fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


def seal(file: Path, sha256: str) -> Sealed | None:
    """Return the bytes of ``file`` in sealed memory; None where the system has none, forbids it, or is short of it.

    Raises:
        CertificateRefused: ``KERNEL_TREE``: what was sealed has another sha256.
    """
    wanted = seals()
    with ExitStack() as undo:
        try:
            if not wanted or (handle := _sealed_copy(file, wanted, undo)) is None:
                return None
        except OSError:  # the private copy is as private as it was, and is loaded instead
            return None
        if (found := _digest(handle)) != sha256:
            raise CertificateRefused("KERNEL_TREE", f"{file} in memory has sha256 {found}, certified is {sha256}")
        undo.pop_all()
    return Sealed(file, handle)


def _sealed_copy(file: Path, wanted: int, undo: ExitStack) -> int | None:
    handle = os.memfd_create(file.name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    undo.callback(os.close, handle)
    with file.open("rb") as reader, os.fdopen(os.dup(handle), "wb") as writer:
        while block := reader.read(_BLOCK):
            writer.write(block)
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, wanted)
    return handle if fcntl.fcntl(handle, fcntl.F_GET_SEALS) & wanted == wanted else None


def _digest(handle: int) -> str:
    sha, at = hashlib.sha256(), 0
    while block := os.pread(handle, _BLOCK, at):
        sha.update(block)
        at += len(block)
    return sha.hexdigest()


def seal_libraries(build: KernelBuild) -> tuple[Sealed, ...]:
    """Seal the libraries of a private copy; none where libraries of it find each other by their place on disk.

    Raises:
        CertificateRefused: as :func:`seal`.
    """
    libraries = [file for file in build.files if ".so" in file.name.rpartition("/")[2]]
    names = {file.name: file.name.rpartition("/")[2].encode() for file in libraries}
    if any(_mentions(build.folder / name, [names[other] for other in names if other != name]) for name in names):
        return ()
    found = [seal(build.folder / file.name, file.sha256) for file in libraries]
    return tuple(one for one in found if one is not None)


def _mentions(file: Path, words: Sequence[bytes]) -> bool:
    if not words or not file.stat().st_size:
        return False
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return any(data.find(word) >= 0 for word in words)


@contextmanager
def serving(build: KernelBuild, libraries: Sequence[Sealed]) -> Iterator[None]:
    """Let imports of the build, now and later, load sealed libraries; ``torch.ops.load_library`` does in the block."""
    table = {one.file: one for one in libraries}
    if not table:
        yield
        return
    finder = _Finder(build.id, table)
    with ExitStack() as undo:
        sys.meta_path.insert(0, finder)
        undo.callback(sys.meta_path.remove, finder)
        with _ops_from(table):
            yield
        undo.pop_all()  # kernels import some of their modules late


@contextmanager
def _ops_from(table: Mapping[Path, Sealed]) -> Iterator[None]:
    honest: Any = torch.ops.load_library
    operators: Any = torch._ops  # noqa: SLF001 (it holds the flags with which torch loads libraries of ops)
    real = {os.path.realpath(path): one for path, one in table.items()}

    def load_library(path: str | Path) -> None:
        sealed = real.get(os.path.realpath(path))
        if sealed is None:
            honest(path)
        elif sealed.path not in torch.ops.loaded_libraries:
            # torch would resolve the link that the path is, and find no file there.
            with operators.dl_open_guard():
                ctypes.CDLL(sealed.path)
            torch.ops.loaded_libraries.add(sealed.path)

    vars(torch.ops)["load_library"] = load_library
    try:
        yield
    finally:
        del vars(torch.ops)["load_library"]


class _Finder(MetaPathFinder):
    """Finds the extension modules of one kernel in sealed memory, under the names of their files."""

    def __init__(self, kernel_id: str, table: Mapping[Path, Sealed]) -> None:
        self._prefix, self._table = f"{kernel_id}.", table

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a sealed extension module; None for everything else."""
        if not fullname.startswith(self._prefix):
            return None
        leaf = fullname.rpartition(".")[2]
        for folder in path or ():
            for suffix in EXTENSION_SUFFIXES:
                sealed = self._table.get(Path(folder) / f"{leaf}{suffix}")
                if sealed is not None:
                    loader = _Loader(fullname, sealed)
                    return spec_from_file_location(fullname, sealed.file, loader=loader)
        return None


class _Loader(ExtensionFileLoader):
    """Creates an extension module from sealed memory; its ``__file__`` names the private copy."""

    def __init__(self, name: str, sealed: Sealed) -> None:
        super().__init__(name, sealed.path)
        self._sealed = sealed

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load the library by the path of the sealed memory."""
        module = super().create_module(ModuleSpec(spec.name, self, origin=self._sealed.path))
        module.__file__ = str(self._sealed.file)
        return module
