"""The state file: a deployer's memory on disk, changed by one process at a time and never left half-written.

A missing file is a first use. One that is damaged, or that may not be looked at, is refused and never taken for
missing. Like the policy it must belong to root or the reader, be writable by nobody else, and be no symbolic link. Its
folder, where links lead to it, must belong to one of them and be writable by nobody else, since who may remove the file
may take the memory away. A writer takes an exclusive lock (``lock``), reads the memory again, checks again, takes
maxima and renames a synced temporary file over the old one: two processes lose nothing of one another.

Refusal codes: ``STATE_FILE``, ``STATE_BUSY``, and those of ``state``.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from pytest_frt.certs.files import read_owned, write_atomic
from pytest_frt.certs.index import Index
from pytest_frt.certs.lock import locked
from pytest_frt.certs.outcomes import Accepted
from pytest_frt.certs.policy_types import Policy
from pytest_frt.certs.state import STATE, Memory, memory_bytes, parse_memory, remember
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault

MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
_SHORT: Final = 16
_BASE: Final = "XDG_STATE_HOME"


def default_place(policy_path: str | Path) -> Path:
    """Return where the memory of a policy file is kept: below the user's XDG state directory, by the file's full path.

    A policy that is moved or copied starts with an empty memory there; name a state file to keep one.

    Raises:
        UsageFault: the user has no home directory.
    """
    # The one place besides the command line where an environment variable decides: XDG says that it does.
    base = os.environ.get(_BASE, "")
    try:
        root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise UsageFault(f"no place for a state file: {error}", hint="name one: state=PATH, or state=False") from error
    name = hashlib.sha256(os.fsencode(Path(policy_path).resolve())).hexdigest()[:_SHORT]
    return root / "pytest-frt" / f"trust-{name}.json"


def read(path: str | Path) -> Memory:
    """Return the memory of a state file; that of a first use when it does not exist.

    Raises:
        CertificateRefused: ``STATE_FILE`` (a link, foreign owner, open mode), ``STATE_CORRUPT``.
        UsageFault: unreadable, or it cannot be told whether it exists.
    """
    place = Path(path)
    if _absent(place.parent, follow=True):
        return Memory()
    _check_folder(place.parent)
    if _absent(place, follow=False):
        return Memory()
    return parse_memory(read_owned(place, code="STATE_FILE", cap=STATE.size), str(place))


def commit(
    path: str | Path, policy: Policy, system: datetime, accepted: Iterable[Accepted], standing: Iterable[Index] = ()
) -> Memory:
    """Write what was accepted (step 15) and return the memory; nothing is written when nothing is new.

    Args:
        path: State file.
        policy: The policy they were accepted under, in force.
        system: The clock they were accepted at.
        accepted: Certificates that passed everything.
        standing: Indexes that stand; they and the policy's version count although nothing was accepted.

    Raises:
        CertificateRefused: another process has accepted something newer meanwhile (``ROLLBACK``, ...), or the file
            became unusable.
        StorageFault: it cannot be written; the memory is as it was.
    """
    place, found, indexes = Path(path), tuple(accepted), tuple(standing)
    before = read(place)
    if remember(before, policy, system, found, indexes) == before:
        return before
    with _locked(place):
        memory = remember(read(place), policy, system, found, indexes)
        write_atomic(place, memory_bytes(memory), mode=MODE)
    return memory


def _absent(place: Path, *, follow: bool) -> bool:
    try:
        place.stat(follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError as error:
        hint = "name a state file that this user may read"
        raise UsageFault(f"{place} cannot be looked at: {error.strerror}", hint=hint) from error
    return False


def _check_folder(folder: Path) -> None:
    facts = folder.stat()
    # With the sticky bit, as in a shared temporary folder, others can add files and not remove ours.
    shared = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not facts.st_mode & stat.S_ISVTX
    if shared or facts.st_uid not in (os.geteuid(), 0):
        mode = stat.S_IMODE(facts.st_mode)
        message = f"others could remove a state file from {folder} (mode {mode:04o}, uid {facts.st_uid})"
        raise CertificateRefused(
            "STATE_FILE", message, hint=f"chmod go-w {folder}, or name a file in a folder of yours"
        )


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    wish = "what was accepted must be remembered: name another state file, or say that none is kept"
    try:
        place.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFault(f"{error.filename or place} cannot be written: {error.strerror}", hint=wish) from error
    with locked(place, special="STATE_FILE", busy="STATE_BUSY", hint=wish):
        yield
