"""frt-tree-v1: one digest for a folder of code, over names and bytes, with a closed rule for what may be in it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import FrtError

MAGIC: Final = b"frt-tree-v1\0"
BLOCK: Final = 1 << 20
NAME_LIMIT: Final = 255  # the longest file name that common file systems take
MAX_FILES: Final = 20_000  # twenty times the subjects that a statement may have
MAX_DEPTH: Final = 32  # folders within folders; the reader calls itself once for each
MAX_FILE_BYTES: Final = 4 << 30  # above every kernel library seen, and hashed in seconds: sparse files claim more
MAX_TREE_BYTES: Final = 4 * MAX_FILE_BYTES
BYTECODE_FOLDER: Final = "__pycache__"
BYTECODE_SUFFIXES: Final = (".pyc", ".pyo")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@-]*")
# Names that some system gives to a device, with or without a suffix.
_DEVICE: Final = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


class TreeInvalid(FrtError):
    """A folder holds something that a digest over names and bytes cannot bind.

    Args:
        fault: ``TREE_SYMLINK``, ``TREE_BYTECODE``, ``TREE_SPECIAL``, ``TREE_FOREIGN``, ``TREE_SIZE`` or ``NAME``.
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
        TreeInvalid: as :func:`tree_sizes`, before a byte is read; or a file changed its size since.
        OSError: something cannot be read.
    """
    sizes = tree_sizes(root, leave_bytecode=leave_bytecode)
    return tuple(FileDigest(name, _file_digest(root / name, name)) for name in sizes)


def tree_sizes(root: Path, *, leave_bytecode: bool = False) -> dict[str, int]:
    """Return every file below ``root`` with its size in bytes, in byte order of its name; nothing is opened.

    Args:
        root: As for :func:`tree_files`.
        leave_bytecode: As for :func:`tree_files`.

    Raises:
        TreeInvalid: a link, a special file, a hard link to another user's file, bytecode, a name that is not plain, or
            more files, bytes or levels than a tree may have.
        OSError: a folder cannot be read.
    """
    found: dict[str, int] = {}
    total = 0
    for name, facts in _walk(root, "", leave_bytecode=leave_bytecode):
        check_name(name)
        found[name] = check_file(facts, name)
        total += found[name]
        if len(found) > MAX_FILES or total > MAX_TREE_BYTES:
            raise _too_large(name, f"the tree has more than {MAX_FILES} files or {MAX_TREE_BYTES} bytes")
    return dict(sorted(found.items(), key=lambda one: one[0].encode()))


def check_file(facts: os.stat_result, name: str) -> int:
    """Return the size of what a tree may hold as a file.

    Args:
        facts: Of the open file or of the entry itself, never of what a link points to.
        name: Its name, for the message.

    Raises:
        TreeInvalid: it is no regular file, another user's file under a second name, or too large.
    """
    if not stat.S_ISREG(facts.st_mode):
        raise TreeInvalid("TREE_SPECIAL", name, f"{name} is no regular file", hint="remove it from the tree")
    # Package managers link their caches into place; a link to a file of somebody else is theirs to change.
    if facts.st_nlink > 1 and facts.st_uid not in {os.geteuid(), 0}:
        raise TreeInvalid(
            "TREE_FOREIGN",
            name,
            f"{name} is a hard link to a file of uid {facts.st_uid}, who can change it under its other name",
            hint="put a copy in its place",
        )
    if facts.st_size > MAX_FILE_BYTES:
        raise _too_large(name, f"{name} has {facts.st_size} bytes, more than the {MAX_FILE_BYTES} a file may have")
    return facts.st_size


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


def _walk(folder: Path, prefix: str, *, leave_bytecode: bool) -> Iterator[tuple[str, os.stat_result]]:
    if folder.is_symlink():
        raise _link(prefix.rstrip("/") or folder.name)
    if prefix.count("/") > MAX_DEPTH:
        raise _too_large(prefix, f"folders lie more than {MAX_DEPTH} levels deep")
    with os.scandir(folder) as entries:
        held = list(islice(entries, MAX_FILES + 1))
    if len(held) > MAX_FILES:
        raise _too_large(prefix, f"a folder holds more than the {MAX_FILES} files a tree may have")
    for entry in sorted(held, key=lambda entry: entry.name):
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
            yield name, entry.stat(follow_symlinks=False)


def _too_large(name: str, message: str) -> TreeInvalid:
    return TreeInvalid("TREE_SIZE", name, message, hint="this is no kernel or entry folder: name the one that is")


def _link(name: str) -> TreeInvalid:
    return TreeInvalid(
        "TREE_SYMLINK",
        name,
        f"{name} is a symbolic link: what it points to can change without changing the tree",
        hint="put the file itself in its place",
    )


def _file_digest(path: Path, name: str) -> str:
    # O_NONBLOCK: opening a FIFO must not wait for a writer. O_NOFOLLOW: a link put there since the scan is an error.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        left = check_file(os.fstat(handle), name)
        sha = hashlib.sha256()
        while block := file.read(BLOCK):
            left -= len(block)
            if left < 0:
                raise _too_large(name, f"{name} grew while it was read")
            sha.update(block)
        return sha.hexdigest()
