"""Timing processes that are started before their job is known."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.lab import fleet as fleets
from pytest_frt.lab.fleet import Fleet, Site
from pytest_frt.lab.launch import Launched
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_group import Ask, TimingGroup
from pytest_frt.lab.timing_process import Limits, TimingProcess
from pytest_frt.lab.wire import Channel

ONE = TimingPlan(processes=1, looks=(1,), null_pairs=0, witnesses=0, loads=1, region_s=0.002, ahead=1)


class Silent:
    """Hears of every step."""

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Say nothing."""


class Crowd:
    """Fleets whose processes sleep; ``peers`` are the other ends of their channels."""

    def __init__(self, folder: Path) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.peers: list[socket.socket] = []
        self.fleets: list[Fleet] = []
        self._site = Site(folder, {}, DeviceLock("cpu", folder), Limits(), 1, 2)

    def fleet(self) -> Fleet:
        self.fleets.append(Fleet(self._site, "candidate"))
        return self.fleets[-1]

    def start(self, out: Path, *_: object) -> Launched:
        ours, theirs = socket.socketpair()
        self.peers.append(theirs)
        self.started.append(subprocess.Popen(["sleep", "60"], start_new_session=True))  # noqa: S607
        return Launched(self.started[-1], Channel(ours), out / "log")


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    made = Crowd(tmp_path)
    monkeypatch.setattr(fleets, "start", made.start)
    monkeypatch.setattr("pytest_frt.lab.timing_process.start", made.start)
    monkeypatch.setattr(TimingProcess, "end_load", lambda _: None)
    yield made
    for fleet in made.fleets:
        fleet.close()
    for peer in made.peers:
        peer.close()


def pids(processes: list[TimingProcess]) -> list[int]:
    return [process.pid for process in processes]


def test_jobs_go_to_the_processes_that_wait_and_then_to_new_ones(crowd: Crowd, toy: Any) -> None:
    fleet = crowd.fleet()
    fleet.begin(2, 1, ("json",))
    fleet.begin(2, 1, ("json",))  # there are enough
    assert len(crowd.started) == 2
    got = pids(fleet.load(toy.job("equal"), 3, random.Random(0)))  # noqa: S311
    assert got == [process.pid for process in crowd.started]
    assert crowd.peers[0].recv(1 << 16).startswith(b'{"libraries":["json"]}\n{"op":"load"')


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def keep_low(process: subprocess.Popen[bytes]) -> None:
    os.setpriority(os.PRIO_PROCESS, process.pid, 19)


SPOILED = {"it died": (1, kill), "other threads": (7, lambda _: None), "it yields for good": (1, keep_low)}


@pytest.mark.parametrize(("threads", "spoil"), SPOILED.values(), ids=SPOILED)
def test_process_that_cannot_serve_is_nobodys_fault(
    crowd: Crowd, toy: Any, threads: int, spoil: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_frt.lab.priority.restorable", lambda: False)
    fleet = crowd.fleet()
    fleet.begin(1, threads, ())
    spoil(crowd.started[0])
    (process,) = fleet.load(toy.job("equal"), 1, random.Random(0))  # noqa: S311
    assert process.pid == crowd.started[1].pid
    assert crowd.started[0].wait(5) == -signal.SIGKILL


def test_close_ends_what_waits(crowd: Crowd) -> None:
    fleet = crowd.fleet()
    fleet.begin(2, 1, ())
    assert fleet.strays() == []
    fleet.close()
    assert [process.wait(5) for process in crowd.started] == [-signal.SIGKILL] * 2


def test_nothing_is_timed_while_a_process_imports(tmp_path: Path, toy: Any) -> None:
    lock = DeviceLock("cpu", tmp_path)
    with TimingLab(tmp_path, environ=os.environ, lock=lock, plan=ONE) as lab:
        lab.begin(toy.job("equal").host.threads, ("json", "no_such_library"))
        alone = threading.Event()

        def take() -> None:
            with lock.exclusive():
                alone.set()

        threading.Thread(target=take, daemon=True).start()
        assert not alone.wait(0.3)
        assert alone.wait(60)
        ask = Ask("equal", lambda _: None, random.Random(0), Silent())  # noqa: S311
        with TimingGroup(lab, toy.job("equal")) as group:
            assert isinstance(group.collect(ask), TimingEvidence)
        assert [path.name for path in tmp_path.glob("candidate-*/*") if path.is_dir() and path.name.isdigit()] == ["0"]
