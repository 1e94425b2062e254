"""Directories of certified files: what is in one, and a private copy whose bytes are the certified ones.

Hashing files and then loading them by path loads whatever somebody put there in between. ``copy_verified`` therefore
hashes *while copying* into a fresh directory that only this user can enter; a runtime loads from the copy. Symbolic
links, bytecode (it would run in place of the source), special files, odd names and sizes beyond the caps of
``spec.tree`` make a tree invalid, and a file that grows while it is copied is read no further than it was long.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pytest_frt.certs.files import storage
from pytest_frt.certs.reading import EMPTY_SHA256, check_file_name
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused
from pytest_frt.spec import tree as spec_tree

KERNEL: Final = "kernel"
_BLOCK: Final = 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def list_files(folder: str | Path) -> tuple[FileDigest, ...]:
    """Return every file below ``folder`` with its sha256, in byte order of its relative name.

    Raises:
        CertificateRefused: ``TREE_SYMLINK``, ``TREE_BYTECODE``, ``TREE_SPECIAL``, ``TREE_FOREIGN``, ``TREE_SIZE`` or
            ``NAME``, naming the file; ``KERNEL_TREE`` when the directory cannot be read.
    """
    with refusing(folder):
        return spec_tree.tree_files(Path(folder))


@contextmanager
def refusing(folder: str | Path) -> Iterator[None]:
    """Turn what reading a tree raises into coded refusals.

    Raises:
        CertificateRefused: as :func:`list_files`.
    """
    try:
        yield
    except spec_tree.TreeInvalid as error:
        raise CertificateRefused(error.fault, error.message, hint=error.hint) from error
    except OSError as error:
        raise CertificateRefused("KERNEL_TREE", f"{error.filename or folder}: {error.strerror}") from error


def tree_digest(folder: str | Path) -> str:
    """Return the frt-tree-v1 digest of a directory: every name and every byte of it, empty files included.

    Raises:
        CertificateRefused: as :func:`list_files`.
    """
    return spec_tree.tree_digest(list_files(folder))


def subjects(folder: str | Path, role: str) -> tuple[FileDigest, ...]:
    """Return the files of ``folder`` as subjects ``<role>/<name>``; empty files are none, the tree digest binds them.

    Raises:
        CertificateRefused: as :func:`list_files`.
    """
    files = list_files(folder)
    return tuple(FileDigest(f"{role}/{file.name}", file.sha256) for file in files if file.sha256 != EMPTY_SHA256)


def role_files(files: tuple[FileDigest, ...], role: str) -> dict[str, str]:
    """Return name to sha256 of the subjects of one role, names relative to the role."""
    prefix = f"{role}/"
    return {file.name.removeprefix(prefix): file.sha256 for file in files if file.name.startswith(prefix)}


def copy_verified(
    source: str | Path, expected: Mapping[str, str], dest: str | Path, *, role: str = KERNEL, tree: str = ""
) -> Path:
    """Copy the expected files of ``source`` into the new directory ``dest``, hashing what is written.

    Args:
        source: Directory to copy from; nothing in it is trusted.
        expected: Relative name to sha256.
        dest: Directory to create (mode 0700); it must not exist. Removed again on refusal.
        role: ``kernel`` also refuses files that are not expected; other roles take their files out of a folder that
            holds more.
        tree: frt-tree-v1 digest the copy must have. Empty files are copied only when it is given, since nothing else
            binds them.

    Raises:
        CertificateRefused: ``KERNEL_TREE`` (role kernel) or ``ROLE_FILE``: a file is missing, extra or different;
            ``TREE_*`` and ``NAME``; ``PRIVATE_DIR`` when ``dest`` exists.
        StorageFault: ``dest`` cannot be written.
    """
    origin, target = Path(source), Path(dest)
    code = "KERNEL_TREE" if role == KERNEL else "ROLE_FILE"
    if not expected:
        raise CertificateRefused(code, f"no file of role {role} is certified")
    empty = _check_names(origin, expected, tree) if role == KERNEL else ()
    with storage(target):
        try:
            target.mkdir(mode=0o700)
        except FileExistsError as error:
            raise CertificateRefused("PRIVATE_DIR", f"{target} exists; the copy needs a fresh directory") from error
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, target)
        for name, sha256 in (*sorted(expected.items()), *((name, EMPTY_SHA256) for name in empty)):
            _copy(origin, target, FileDigest(check_file_name(name), sha256), code)
        if tree:
            _check_tree(origin, target, tree, code)
        undo.pop_all()
    return target


def _check_tree(origin: Path, target: Path, tree: str, code: str) -> None:
    if (found := tree_digest(target)) != tree:
        raise CertificateRefused(code, f"{origin} has tree digest {found}, certified is {tree}")


def _check_names(origin: Path, expected: Mapping[str, str], tree: str) -> tuple[str, ...]:
    """Refuse unexpected files before anything is copied; return the empty ones that the tree digest will bind."""
    with refusing(origin):
        sizes = spec_tree.tree_sizes(origin)
    extra = [name for name in sizes if name not in expected]
    for name in extra:
        if sizes[name] or not tree:
            raise CertificateRefused("KERNEL_TREE", f"{origin} holds {name}, which is not certified")
    return tuple(extra)


def _copy(origin: Path, target: Path, file: FileDigest, code: str) -> None:
    path = target / file.name
    with storage(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, size = _open(origin, file.name, code)
        found = _copy_bytes(handle, path, size)
    if not found:
        raise CertificateRefused(code, f"{origin / file.name} grew beyond its {size} bytes while it was copied")
    if found != file.sha256:
        raise CertificateRefused(code, f"{origin / file.name} has sha256 {found}, certified is {file.sha256}")


def _open(origin: Path, name: str, code: str) -> tuple[int, int]:
    """Open a regular file below ``origin`` without following a link at any level; return its handle and size."""
    *folders, last = name.split("/")
    try:
        with ExitStack() as opened:
            handle = os.open(origin, _FOLDER)
            opened.callback(os.close, handle)
            for part in folders:
                handle = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                opened.callback(os.close, handle)
            file = os.open(last, _READ, dir_fd=handle)
    except OSError as error:
        raise CertificateRefused(code, f"{origin / name} cannot be read: {error.strerror}") from error
    with ExitStack() as undo, refusing(origin):
        undo.callback(os.close, file)
        size = spec_tree.check_file(os.fstat(file), str(origin / name))
        undo.pop_all()
    return file, size


def _copy_bytes(handle: int, path: Path, size: int) -> str:
    """Copy a file of ``size`` bytes and return the sha256 of what was written; empty when there is more of it."""
    sha = hashlib.sha256()
    with os.fdopen(handle, "rb") as reader, os.fdopen(os.open(path, _CREATE, 0o400), "wb") as writer:
        while block := reader.read(_BLOCK):
            size -= len(block)
            if size < 0:
                return ""
            sha.update(block)
            writer.write(block)
    return sha.hexdigest()
