"""Private copies belong to one process: a forked one neither takes them away nor writes among them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pytest_frt.errors import StorageFault
from pytest_frt.runtime import sources


def test_forked_process_has_its_own_copies_and_leaves_its_parents() -> None:
    mine = sources._fresh("mine").parent
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            sources._remove(os.getppid())  # what an exit of the child calls
            other = sources._fresh("other").parent
            os.write(writer, f"{other} {sources.is_private(mine)}".encode())
            sources._remove(os.getpid())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        other, seen = pipe.read().split()
    os.waitpid(child, 0)
    assert mine.is_dir()
    assert Path(other).parent != mine.parent
    assert not Path(other).exists()
    assert seen == "True"


def test_folders_of_copies_are_closed_to_others() -> None:
    for folder in (sources._private_root(), sources._fresh("x").parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_merely_looks_private_is_not(tmp_path: Path) -> None:
    (tmp_path / "frt-verified-x").mkdir()
    assert not sources.is_private(tmp_path / "frt-verified-x")


def test_full_disk_is_a_fault_of_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    sources._private_root()
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(StorageFault, match="No space left"):
        sources._fresh("x")
