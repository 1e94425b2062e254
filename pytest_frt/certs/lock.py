"""One writer at a time: a lock that is held from reading a file to renaming its next version over it.

The lock is ``flock`` on the file ``<name>.lock`` beside it, since the file itself is replaced by each write. Whoever
holds it removes it before giving it back, so that no folder of certificates fills with locks; a waiter who got the lock
of a removed file therefore opens the name anew. Nobody who only reads needs it: a rename shows the old or the new file.

Refusal codes: ``FILE_BUSY``, and those that a caller passes instead.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pytest_frt.errors import CertificateRefused, StorageFault

SUFFIX: Final = ".lock"
WAIT_S: Final = 10.0
"""A writer reads, checks and writes under the lock; one that holds it for longer is stuck or hostile."""
_POLL_S: Final = 0.01
_MODE: Final = 0o600
# So long a name leaves room for the suffix in the 255 bytes of a file name; two that share it only wait for each other.
_NAME: Final = 240
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def locked(
    place: Path, *, special: str, busy: str = "FILE_BUSY", hint: str = "name a file in a folder of yours"
) -> Iterator[None]:
    """Hold the lock of a file; not to be taken twice by one process.

    Args:
        place: The file that is to change; its folder is there.
        special: Refusal code of a lock that is no regular file.
        busy: Refusal code of a lock that another process does not give back.
        hint: Next step of a lock that cannot be made.

    Raises:
        CertificateRefused: ``special`` or ``busy``; nothing was read.
        StorageFault: no lock can be made here.
    """
    lock = place.with_name(place.name[:_NAME] + SUFFIX)
    handle = _taken(lock, special, busy, hint)
    try:
        yield
    finally:
        try:
            lock.unlink(missing_ok=True)
        except OSError:  # one that stays, as in a folder that became read-only, is taken again by whoever is next
            pass
        finally:
            os.close(handle)  # closing gives the lock back


def _taken(lock: Path, special: str, busy: str, hint: str) -> int:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            handle = os.open(lock, _FLAGS, _MODE)
        except OSError as error:
            raise StorageFault(f"{lock} cannot be written: {error.strerror}", hint=hint) from error
        kept = False
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise CertificateRefused(special, f"{lock} is not a regular file")
            _take(handle, lock, deadline, busy)
            kept = _is_named(handle, lock)
        finally:
            if not kept:
                os.close(handle)
        if kept:
            return handle


def _take(handle: int, lock: Path, deadline: float, busy: str) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StorageFault(f"{lock} cannot be locked: {error.strerror}", hint="use a local disk") from error
            if time.monotonic() > deadline:
                raise CertificateRefused(
                    busy, f"{lock} is held by another process for {WAIT_S:.0f} s", hint="end that process"
                ) from error
            time.sleep(_POLL_S)
        else:
            return


def _is_named(handle: int, lock: Path) -> bool:
    """Report whether the name still means the open file, and not one that was removed or made anew since."""
    try:
        return os.path.samestat(os.fstat(handle), lock.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
