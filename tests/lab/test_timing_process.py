"""What the judge makes of a timing process that is silent, gone, or says something it may not say."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, TimingJob
from pytest_frt.lab import timing_process
from pytest_frt.lab.launch import Launched
from pytest_frt.lab.timing_process import Limits, ProcessLost, TimingProcess, Turn
from pytest_frt.lab.wire import Channel

Serve = Callable[[list[bytes]], TimingProcess]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that makes a process which gives these answers and dies; ``b""`` is one it never gives."""
    started: list[Launched] = []

    def make(replies: list[bytes]) -> TimingProcess:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)  # noqa: S607 (any process will do)
        (tmp_path / "timing.log").write_text("last words\n")

        def answer() -> None:
            with theirs:
                for reply in replies:
                    if not theirs.recv(1 << 16):
                        return
                    theirs.sendall(reply)
                if theirs.recv(1 << 16):
                    process.kill()

        threading.Thread(target=answer, daemon=True).start()
        launched = Launched(process, Channel(ours), tmp_path / "timing.log")
        started.append(launched)
        monkeypatch.setattr(timing_process, "launch", lambda *_, **__: launched)
        job = TimingJob(
            HostRef("toy", "", BuildRequest("tiny", 0, None, "cpu", ""), 1),
            {},
            "",
            {},
            ("decode",),
            "eager",
            "eager",
            1,
            str(tmp_path),
        )
        return TimingProcess(job, {}, Limits(step_s=0.2))

    yield make
    for launched in started:
        launched.kill()


READY = b'{"canary_s": 0.001}\n'
SETTLED = b'{"settled": 1}\n'
DRAWN = b'{"drawn": 1}\n'


def test_sample_holds_both_clocks(serve: Serve) -> None:
    sample = serve([READY, SETTLED, DRAWN, b'{"worker_s": 0.0}\n']).sample(Turn("a", "decode", 1), 3, 1, 0)
    assert (sample.arm, sample.state, sample.worker_s, sample.canary_s) == ("a", 3, 0.0, 0.001)
    assert sample.judge_s > 0


def test_values_of_a_region_are_told_after_the_arm_has_settled(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    process, asked = serve([]), list[dict[str, Any]]()

    def answer(message: dict[str, Any]) -> dict[str, float]:
        asked.append(message)
        return {"canary_s": 0.001, "worker_s": 0.0}

    monkeypatch.setattr(process, "_ask", answer)
    process.sample(Turn("a", "decode", 1), 3, 2, 77)
    assert [one["op"] for one in asked] == ["arm", "settle", "draw", "go"]
    told = [turn for one in asked[:2] for turn in one.values() if isinstance(turn, int) and 75 <= turn <= 79]
    assert (told, asked[2]["content"]) == ([], 77)


def test_peak_is_a_number_or_the_process_is_lost(serve: Serve) -> None:
    assert serve([b'{"bytes_s": 2e10}\n']).peak() == 2e10
    with pytest.raises(ProcessLost, match="bytes_s"):
        serve([b'{"bytes_s": "fast"}\n']).peak()


@pytest.mark.parametrize(
    ("replies", "kind", "said"),
    [
        ([READY, SETTLED, DRAWN, b""], "TIMEOUT", "no answer within 0.2 s"),
        ([READY], "CRASH", "timing process ended"),
        ([READY, SETTLED, DRAWN, b'{"worker_s": -1}\n'], "CRASH", "worker_s"),
        ([READY, SETTLED, DRAWN, b'{"worker_s": true}\n'], "CRASH", "worker_s"),
        ([READY, SETTLED, DRAWN, b'{"worker_s": NaN}\n'], "CRASH", "NaN"),
        ([READY, SETTLED, DRAWN, b"{}\n"], "CRASH", "worker_s"),
        ([b'{"fault": {"code": "KERNEL", "message": "no build"}}\n'], "CRASH", "[KERNEL] no build"),
        ([b'{"fault": 1}\n'], "CRASH", "a fault is no object"),
    ],
    ids=["hangs", "dies", "negative", "bool", "nan", "missing", "fault", "forged_fault"],
)
def test_lost_process_says_why_and_is_killed(serve: Serve, replies: list[bytes], kind: str, said: str) -> None:
    process = serve(replies)
    with pytest.raises(ProcessLost) as lost:
        process.sample(Turn("a", "decode", 1), 0, 1, 0)
    assert lost.value.verdict().kind == kind
    assert said in lost.value.message
    assert lost.value.message.endswith("last words")
    assert not Path(f"/proc/{process.pid}").exists()
