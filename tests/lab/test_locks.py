"""Timing is alone on its device, readers share it, and a waiting writer is not starved."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from pytest_frt.errors import StorageFault
from pytest_frt.lab.locks import DeviceLock


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
    with getattr(DeviceLock(tmp_path, "cpu"), held)():
        waiting = entered(DeviceLock(tmp_path, "cpu"), asked)
        assert waiting.wait(2 if admitted else 0.1) == admitted
    assert waiting.wait(2)


def test_devices_are_independent(tmp_path: Path) -> None:
    with DeviceLock(tmp_path, "cpu").exclusive():
        assert entered(DeviceLock(tmp_path, "cuda_0"), "exclusive").wait(2)


def test_waiting_writer_goes_before_later_readers(tmp_path: Path) -> None:
    order: list[str] = []

    def take(side: str) -> None:
        with getattr(DeviceLock(tmp_path, "cpu"), side)():
            order.append(side)

    with DeviceLock(tmp_path, "cpu").shared():
        threads = [threading.Thread(target=take, args=(side,)) for side in ("exclusive", "shared")]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert order == ["exclusive", "shared"]


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFault, match="file"), DeviceLock(tmp_path / "file", "cpu").shared():
        pass
