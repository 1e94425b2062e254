"""Threads load kernels one after the other, and what the interpreter was told meanwhile is taken back."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_frt.seat import kernels
from pytest_frt.seat.alone import alone
from tests.seat.test_identity import REPO, kernel

SECONDS = 10.0
"""Patience with another thread."""


def slow(folder: Path, seconds: float) -> Path:
    """Return a kernel whose import takes a while; its folder has the name of its id."""
    name = f"toy_{secrets.token_hex(6)}"
    return kernel(folder / name, name, f"import time\n\nVALUE = time.sleep({seconds})\n")


def wait_for(name: str) -> None:
    end = time.monotonic() + SECONDS
    while name not in sys.modules and time.monotonic() < end:
        time.sleep(0.001)
    assert name in sys.modules


def interpreter() -> tuple[bool, str | None]:
    return sys.dont_write_bytecode, sys.pycache_prefix


def test_threads_that_load_kernels_leave_the_interpreter_as_it_was(tmp_path: Path) -> None:
    before, first, second = interpreter(), slow(tmp_path, 0.2), slow(tmp_path, 0.4)
    with ThreadPoolExecutor(2) as pool:
        loads = [pool.submit(kernels.load, REPO, first, backend="cpu")]
        wait_for(f"{first.name}.inner")
        loads.append(pool.submit(kernels.load, REPO, second, backend="cpu"))
    assert [load.exception() for load in loads] == [None, None]
    assert interpreter() == before


def test_threads_that_load_one_build_get_one_module(tmp_path: Path) -> None:
    root, gate = slow(tmp_path, 0.05), threading.Barrier(4)

    def load(_: int) -> object:
        gate.wait(SECONDS)
        return kernels.load(REPO, root, backend="cpu")[0]

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(load, range(4))) == {sys.modules[root.name]}


@pytest.mark.parametrize(
    "test",
    [test_threads_that_load_kernels_leave_the_interpreter_as_it_was, test_threads_that_load_one_build_get_one_module],
    ids=["interpreter", "module"],
)
def test_loading_without_the_lock_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: object) -> None:
    for name in ("dont_write_bytecode", "pycache_prefix"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    monkeypatch.setattr(kernels, "alone", contextlib.nullcontext)
    with pytest.raises((AssertionError, kernels.KernelRefused)):
        test(tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize("inside", [False, True], ids=["forked by another thread", "forked in the block"])
def test_forked_process_may_enter(*, inside: bool) -> None:
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with alone():
            entered.set()
            leave.wait(SECONDS)

    holder = threading.Thread(target=hold)
    if not inside:
        holder.start()
        entered.wait(SECONDS)
    with alone() if inside else contextlib.nullcontext():
        child = os.fork()
        if child == 0:
            free = False
            try:
                enter = threading.Thread(target=lambda: alone().__enter__(), daemon=True)
                enter.start()
                enter.join(SECONDS)
                free = not enter.is_alive()
            finally:
                os._exit(0 if free else 1)
        _, status = os.waitpid(child, 0)
    leave.set()
    if not inside:
        holder.join(SECONDS)
    assert status == 0
