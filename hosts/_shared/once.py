"""Directories that are made once per cache, whole or not at all, by whichever process comes first."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError

from pytest_frt.sdk import FrtError


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return ``target``, filling it first when no process has done so yet.

    ``make`` fills a temporary directory beside the target, which is then renamed: the target exists only when it is
    complete. Only the holder of the lock writes, so temporary directories found under it were left by a process
    that died, and are removed.

    Args:
        target: Directory to have; its name identifies its content.
        make: Fills the empty directory it is given.

    Raises:
        FrtError: the cache cannot be written.
    """
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if not target.is_dir():
                _fill(target, make)
    except (OSError, SafetensorError) as fault:  # a full disk is either, depending on who writes
        free = shutil.disk_usage(_existing(target)).free // 2**20
        raise FrtError(
            f"the cache directory {target} cannot be written ({free} MiB are free there): {fault}",
            hint="free some space or choose another cache directory",
        ) from fault
    return target


def _fill(target: Path, make: Callable[[Path], None]) -> None:
    prefix = f"{target.name}.partial-"
    for stale in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(stale)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        make(partial)
        partial.chmod(0o755)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
