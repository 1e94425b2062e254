"""frt-tree-v1: one digest for a folder of code, over names and bytes, with a closed rule for what may be in it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import FrtError

MAGIC: Final = b"frt-tree-v1\0"
BLOCK: Final = 1 << 20
NAME_LIMIT: Final = 255  # the longest file name that common file systems take
BYTECODE_FOLDER: Final = "__pycache__"
BYTECODE_SUFFIXES: Final = (".pyc", ".pyo")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@-]*")
# Names that some system gives to a device, with or without a suffix.
_DEVICE: Final = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


class TreeInvalid(FrtError):
    """A folder holds something that a digest over names and bytes cannot bind.

    Args:
        fault: ``TREE_SYMLINK``, ``TREE_BYTECODE``, ``TREE_SPECIAL`` or ``NAME``.
        name: The offending name relative to the tree.
        message: What is wrong.
        hint: The next step.
    """

    code = "TREE"

    def __init__(self, fault: str, name: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.fault = fault
        self.name = name


def check_name(name: str) -> None:
    """Refuse a relative name that is not the same bytes and the same file on every system.

    Args:
        name: ``/``-separated name relative to the tree, e.g. ``layers/linear.py``.

    Raises:
        TreeInvalid: a segment is empty, hidden, ends in a dot, is not ASCII, is too long or is a device name.
    """
    for segment in name.split("/"):
        plain = _SEGMENT.fullmatch(segment) and not segment.endswith(".") and len(segment) <= NAME_LIMIT
        if not plain or _DEVICE.fullmatch(segment):
            raise TreeInvalid(
                "NAME",
                name,
                f"the name {name[:NAME_LIMIT]!a} is not plain: its segments are ASCII letters, digits and ._+@- , "
                f"at most {NAME_LIMIT}, with no leading or trailing dot and no device name",
                hint="rename the file in its source project and build again",
            )


def tree_files(root: Path, *, leave_bytecode: bool = False) -> tuple[FileDigest, ...]:
    """Return every file below ``root`` with its sha256, in byte order of its name.

    Args:
        root: Folder to read. Symbolic links are never followed, not even as ``root``.
        leave_bytecode: Leave out compiled Python instead of refusing it. Right only for a tree that is
            about to be copied file by file, since what is not copied cannot run.

    Raises:
        TreeInvalid: a link, a special file, bytecode or a name that is not plain.
        OSError: something cannot be read.
    """
    found: list[FileDigest] = []
    for name, path in _walk(root, "", leave_bytecode=leave_bytecode):
        check_name(name)
        found.append(FileDigest(name, _regular_file_digest(path, name)))
    return tuple(sorted(found, key=lambda file: file.name.encode()))


def tree_digest(files: Iterable[FileDigest]) -> str:
    """Return the frt-tree-v1 digest of files as :func:`tree_files` returns them.

    It is sha256 over ``frt-tree-v1`` and a zero byte, then, per file in byte order of its name, the name's
    length as four big-endian bytes, the name, and the 32 bytes of the file's sha256.
    """
    sha = hashlib.sha256(MAGIC)
    for file in sorted(files, key=lambda file: file.name.encode()):
        name = file.name.encode()
        sha.update(len(name).to_bytes(4, "big") + name + bytes.fromhex(file.sha256))
    return sha.hexdigest()


def _walk(folder: Path, prefix: str, *, leave_bytecode: bool) -> Iterator[tuple[str, Path]]:
    if folder.is_symlink():
        raise _link(prefix.rstrip("/") or folder.name)
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = prefix + entry.name
            if entry.name == BYTECODE_FOLDER or entry.name.endswith(BYTECODE_SUFFIXES):
                if leave_bytecode:
                    continue
                raise TreeInvalid(
                    "TREE_BYTECODE",
                    name,
                    f"{name} is compiled Python: it would run in place of the source that the digest binds",
                    hint="delete it and import this folder with bytecode switched off",
                )
            if entry.is_symlink():
                raise _link(name)
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(Path(entry.path), f"{name}/", leave_bytecode=leave_bytecode)
            else:
                yield name, Path(entry.path)


def _link(name: str) -> TreeInvalid:
    return TreeInvalid(
        "TREE_SYMLINK",
        name,
        f"{name} is a symbolic link: what it points to can change without changing the tree",
        hint="put the file itself in its place",
    )


def _regular_file_digest(path: Path, name: str) -> str:
    # O_NONBLOCK: opening a FIFO must not wait for a writer. O_NOFOLLOW: a link put there since the scan is an error.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise TreeInvalid("TREE_SPECIAL", name, f"{name} is no regular file", hint="remove it from the tree")
        sha = hashlib.sha256()
        while block := file.read(BLOCK):
            sha.update(block)
        return sha.hexdigest()
