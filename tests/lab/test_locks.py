"""Timing is alone on its device, readers share it, and a waiting writer is not starved."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pytest_frt.errors import StorageFault
from pytest_frt.lab.locks import DeviceLock, shared_folder


def entered(lock: DeviceLock, side: str) -> threading.Event:
    """Take one side in a thread of its own and return the event that says so; it is released at once."""
    inside = threading.Event()

    def take() -> None:
        with getattr(lock, side)():
            inside.set()

    threading.Thread(target=take, daemon=True).start()
    return inside


@pytest.mark.parametrize(
    ("held", "asked", "admitted"),
    [
        ("shared", "shared", True),
        ("shared", "exclusive", False),
        ("exclusive", "shared", False),
        ("exclusive", "exclusive", False),
    ],
)
def test_who_may_enter(tmp_path: Path, held: str, asked: str, admitted: bool) -> None:  # noqa: FBT001
    with getattr(DeviceLock("cpu", tmp_path), held)():
        waiting = entered(DeviceLock("cpu", tmp_path), asked)
        assert waiting.wait(2 if admitted else 0.1) == admitted
    assert waiting.wait(2)


def test_devices_are_independent(tmp_path: Path) -> None:
    with DeviceLock("cpu", tmp_path).exclusive():
        assert entered(DeviceLock("cuda_0", tmp_path), "exclusive").wait(2)


def test_waiting_writer_goes_before_later_readers(tmp_path: Path) -> None:
    order: list[str] = []

    def take(side: str) -> None:
        with getattr(DeviceLock("cpu", tmp_path), side)():
            order.append(side)

    with DeviceLock("cpu", tmp_path).shared():
        threads = [threading.Thread(target=take, args=(side,)) for side in ("exclusive", "shared")]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert order == ["exclusive", "shared"]


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match="file"), DeviceLock("cpu", tmp_path / "file").shared():
        pass


def test_every_run_of_a_user_locks_in_one_folder() -> None:
    assert DeviceLock("cpu")._body == DeviceLock("cpu")._body
    assert str(os.getuid()) in shared_folder().name
