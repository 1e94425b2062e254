"""Opening what should be a plain file: never waits for a pipe, never reads a device, and reads no more than a cap."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

MAX_SOURCE_BYTES: Final = 16 << 20
"""Of a source, yaml or metadata file: a hundred times the largest that is known, and read in milliseconds."""


def open_plain(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; links are followed.

    Raises:
        OSError: it is missing, unreadable or no regular file.
    """
    # Without O_NONBLOCK the open of a pipe would wait for a writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_plain(path: str | Path, cap: int = MAX_SOURCE_BYTES) -> bytes:
    """Return the bytes of a regular file of at most ``cap`` bytes.

    Raises:
        OSError: as :func:`open_plain`, or the file is larger.
    """
    with open_plain(path) as file:
        data = file.read(cap + 1)
    if len(data) > cap:
        raise OSError(errno.EFBIG, f"larger than the cap of {cap} bytes", str(path))
    return data
