"""Reading files that carry trust, and writing files that survive a crash or a full disk.

``read_owned`` opens without following a symlink, checks the *open* file, and reads it once, so that what was checked is
what is used. ``write_atomic`` never leaves half a file under the final name.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ANY: Final = stat.S_IRWXG | stat.S_IRWXO
# Without O_NONBLOCK the open of a FIFO would wait for a writer.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
PUBLIC: Final = b"ed25519:"
"""What a public key file of ours begins with."""
_HEAD_BYTES: Final = 64 * 1024  # a key file is far smaller
PRIVATE: Final = b"PRIVATE KEY-----"
"""What every PEM form of a private key has in its first and last line."""
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


# By an opener: what is then no file, a folder say, is closed again.
def _open_plain(path: str, _: int) -> int:
    return os.open(path, _READ)


def _open_following(path: str, _: int) -> int:
    return os.open(path, _READ & ~os.O_NOFOLLOW)


def read_some(path: Path, limit: int) -> bytes:
    """Return at most ``limit`` bytes of a regular file that carries no trust by itself.

    Raises:
        UsageFault: missing, unreadable or not a regular file.
    """
    try:
        with open(path, "rb", opener=_open_following) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageFault(f"{path} is not a regular file")
            return file.read(limit)
    except OSError as error:
        raise UsageFault(f"{path} cannot be read: {error.strerror}", hint="check the path") from error


def read_owned(path: Path, *, code: str, cap: int, secret: bool = False) -> bytes:
    """Return the bytes of a file that only its owner may change; ``secret`` also forbids others to read it.

    Raises:
        CertificateRefused: ``code``: a symlink, not a regular file, foreign owner, open mode, larger than ``cap``.
        UsageFault: the file is missing or unreadable.
    """
    try:
        with open(path, "rb", opener=_open_plain) as file:
            _check_owner(path, os.fstat(file.fileno()), code, secret=secret)
            data = file.read(cap + 1)
    except OSError as error:
        if path.is_symlink():
            raise CertificateRefused(code, f"{path} is a symbolic link", hint="name the file itself") from error
        raise UsageFault(f"{path} cannot be read: {error.strerror}", hint="check the path") from error
    if len(data) > cap:
        raise CertificateRefused(code, f"{path} is larger than the cap of {cap} bytes")
    return data


def _check_owner(path: Path, facts: os.stat_result, code: str, *, secret: bool) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise CertificateRefused(code, f"{path} is not a regular file")
    owners = {os.geteuid()} if secret else {os.geteuid(), 0}
    if facts.st_uid not in owners:
        raise CertificateRefused(
            code, f"{path} belongs to uid {facts.st_uid}, not to {' or '.join(str(uid) for uid in sorted(owners))}"
        )
    mode = stat.S_IMODE(facts.st_mode)
    if mode & (_OTHERS_ANY if secret else _OTHERS_WRITE):
        wish = "600" if secret else "go-w"
        raise CertificateRefused(code, f"{path} has mode {mode:04o}, open to others", hint=f"chmod {wish} {path}")


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses below ``path`` into one clear fault.

    Raises:
        StorageFault: disk full, read-only, no permission, quota: with the reason and the path.
    """
    try:
        yield
    except OSError as error:
        raise StorageFault(
            f"{error.filename or path} cannot be written: {error.strerror}",
            hint="free space or name another directory; files written before are complete",
        ) from error


def write_atomic(path: Path, data: bytes | memoryview, *, mode: int = 0o644) -> None:
    """Replace ``path`` by ``data``: temporary file in the same directory, fsync, rename, fsync of the directory.

    Raises:
        StorageFault: nothing under the final name has changed.
    """
    with storage(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.part")
        try:
            _write_new(temporary, data, mode)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)


def check_new(path: Path) -> None:
    """Refuse a name that is taken, be it by a file, a folder, a device or a link that leads nowhere.

    Raises:
        UsageFault: something is there; it is left as it is.
        StorageFault: nobody can say, since a folder above is shut or the name is too long.
    """
    with storage(path):
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return
    raise UsageFault(f"{path} exists and is never overwritten", hint="name another file, or move that one away")


def check_replaceable(path: Path) -> None:
    """Refuse a name at which something lies that a report must not replace.

    Raises:
        UsageFault: a link, folder, FIFO or device, or a file that holds a private key.
        StorageFault: nobody can say, since a folder above is shut or the name is too long.
    """
    with storage(path):
        try:
            kind = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        held = _holds_private(path) if stat.S_ISREG(kind) else False
    if not stat.S_ISREG(kind):
        raise UsageFault(f"{path} is no regular file and is not replaced", hint="name another file")
    if held:
        raise UsageFault(f"{path} holds a private key and is not replaced", hint="name another file")


def _holds_private(path: Path) -> bool:
    with open(path, "rb", opener=_open_plain) as file:
        return PRIVATE in file.read(_HEAD_BYTES)


def write_new(path: Path, data: bytes | memoryview, *, mode: int) -> None:
    """Create ``path`` with ``data``; it must not exist.

    Raises:
        UsageFault: something of that name exists; it is left as it is.
        StorageFault: it cannot be written; nothing is left of it.
    """
    with storage(path):
        try:
            _write_new(path, data, mode)
        except FileExistsError as error:
            raise UsageFault(f"{path} exists and is never overwritten", hint="name another file") from error
        with ExitStack() as undo:
            undo.callback(path.unlink, missing_ok=True)
            _sync_folder(path.parent)
            undo.pop_all()


def _write_new(path: Path, data: bytes | memoryview, mode: int) -> None:
    handle = os.open(path, _CREATE, mode)
    with ExitStack() as undo:
        undo.callback(path.unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        undo.pop_all()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
