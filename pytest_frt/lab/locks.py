"""A reader/writer lock per device, over files: timing is alone on its device, everything else shares it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_frt.errors import StorageFault


def shared_folder() -> Path:
    """Return the folder that all runs of this user on this machine lock in."""
    return Path(tempfile.gettempdir(), f"frt-locks-{os.getuid()}")


class DeviceLock:
    """Lock files of one device in a folder that all processes share.

    A waiting writer closes the gate, so readers that keep coming cannot starve it. Not reentrant:
    a process that holds one side and asks for the other waits for itself.

    Args:
        device: Device name, e.g. ``cpu`` or ``cuda_0``.
        folder: Where the lock files lie; by default one folder per user and machine, since a
            device is shared by whole runs and not only by the processes of one.
    """

    def __init__(self, device: str, folder: Path | None = None) -> None:
        folder = folder or shared_folder()
        self._gate = folder / f"{device}.gate.lock"
        self._body = folder / f"{device}.lock"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the device beside other readers."""
        with _held(self._gate, fcntl.LOCK_EX):
            body = _take(self._body, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(body)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone."""
        with _held(self._gate, fcntl.LOCK_EX), _held(self._body, fcntl.LOCK_EX):
            yield


def _take(path: Path, mode: int) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as fault:
        raise StorageFault(
            f"lock file {path} cannot be opened: {fault.strerror}", hint="choose a writable folder"
        ) from fault
    with ExitStack() as undo:
        undo.callback(os.close, fd)
        fcntl.flock(fd, mode)
        undo.pop_all()
    return fd


@contextmanager
def _held(path: Path, mode: int) -> Iterator[None]:
    fd = _take(path, mode)
    try:
        yield
    finally:
        os.close(fd)
