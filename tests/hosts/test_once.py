"""Directories made once: whole or absent, whoever dies on the way."""

from __future__ import annotations

import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.errors import FrtError

once: Any = import_module("pytest_frt.hosts._shared.once")


def write(folder: Path) -> None:
    (folder / "weights").write_text("whole")


def forbidden(folder: Path) -> None:
    pytest.fail(f"{folder} was made again")


def test_target_is_made_once(tmp_path: Path) -> None:
    target = once.made_once(tmp_path / "deep" / "target", write)
    assert (once.made_once(target, forbidden) / "weights").read_text() == "whole"


def test_partial_directory_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    planted = tmp_path / "target.partial-dead"
    planted.mkdir()
    (planted / "weights").write_text("half")
    once.made_once(tmp_path / "target", write)
    assert (tmp_path / "target" / "weights").read_text() == "whole"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "target.lock"]


def test_partial_directory_of_another_target_is_kept(tmp_path: Path) -> None:
    (tmp_path / "other.partial-live").mkdir()
    once.made_once(tmp_path / "target", write)
    assert (tmp_path / "other.partial-live").is_dir()


def test_crash_leaves_no_target_and_the_next_call_makes_it(tmp_path: Path) -> None:
    def crash(folder: Path) -> None:
        write(folder)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        once.made_once(tmp_path / "target", crash)
    assert [path.name for path in tmp_path.iterdir()] == ["target.lock"]
    assert once.made_once(tmp_path / "target", write).is_dir()


def test_concurrent_callers_make_it_once(tmp_path: Path) -> None:
    made: list[Path] = []

    def slow(folder: Path) -> None:
        time.sleep(0.05)
        made.append(folder)

    threads = [threading.Thread(target=once.made_once, args=(tmp_path / "target", slow)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_unwritable_cache_is_named_with_its_free_space(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FrtError, match=r"cannot be written \(\d+ MiB are free") as caught:
        once.made_once(tmp_path / "file" / "target", write)
    assert "cache" in caught.value.hint


def test_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    def full(folder: Path) -> None:
        write(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(FrtError, match="No space left"):
        once.made_once(tmp_path / "target", full)
    assert [path.name for path in tmp_path.iterdir()] == ["target.lock"]
