"""What is timed is what has been computed when the clock stops: outputs are copied inside the region."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, TimingJob
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.timing_worker import KEPT_ELEMENTS, Clock, TimingWorker
from pytest_frt.lab.wire import WireFault

N = 4


class Late(torch.Tensor):
    """Has no values until somebody looks at them; looking gives another one."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0]


def worker(tmp_path: Path, *executions: Any) -> TimingWorker:
    host = HostRef("toy", "", BuildRequest("tiny", 0, None, "cpu", ""), 1)
    made = TimingWorker(TimingJob(host, {}, "", {}, ("decode",), "eager", "eager", 1, str(tmp_path)))
    made._drawn = list(executions)
    made.go()
    return made


def test_executions_that_share_a_buffer_are_told_apart() -> None:
    buffer = torch.zeros(1)
    _, copies = Clock("cpu").time([partial(buffer.fill_, value) for value in range(N)])
    assert [copy.item() for copy in copies] == list(range(N))


def test_work_that_ends_after_the_clock_is_missing() -> None:
    out, go = torch.zeros(1), threading.Event()

    def fill() -> None:
        go.wait()
        out.fill_(1.0)

    thread = threading.Thread(target=fill)
    thread.start()
    _, (copy,) = Clock("cpu").time([lambda: out])
    go.set()
    thread.join()
    assert (out.item(), copy.item()) == (1.0, 0.0)


def test_copy_of_a_long_output_holds_its_end() -> None:
    output = torch.arange(KEPT_ELEMENTS + 2, dtype=torch.int32)
    _, (copy,) = Clock("cpu").time([lambda: output])
    assert (len(copy), copy[-1].item()) == (KEPT_ELEMENTS, KEPT_ELEMENTS + 1)


def test_answer_that_puts_its_values_off_ends_the_process(tmp_path: Path) -> None:
    late = torch.ones(1).as_subclass(Late)
    with pytest.raises(EvidenceError, match="Late"):
        worker(tmp_path, lambda: late).keep("kept", 0)


@pytest.mark.parametrize("index", [-1, 2])
def test_only_executions_of_the_region_can_be_kept(tmp_path: Path, index: int) -> None:
    one = torch.ones(1)
    with pytest.raises(WireFault, match="2 executions"):
        worker(tmp_path, lambda: one, lambda: one).keep("kept", index)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_work_on_a_side_stream_is_waited_for_or_missing() -> None:
    clock, side, wide = Clock("cuda"), torch.cuda.Stream(), torch.ones(4096, 4096, device="cuda")

    def work(stream: torch.cuda.Stream) -> Tensor:
        out = torch.zeros(1, device="cuda")
        with torch.cuda.stream(stream):
            for _ in range(20):
                wide @ wide
            out.fill_(1.0)
        return out

    honest, (full,) = clock.time([lambda: work(torch.cuda.current_stream())])
    hidden, (copy,) = clock.time([lambda: work(side)])
    began = time.perf_counter()
    torch.cuda.synchronize()
    assert time.perf_counter() - began < 0.1 * honest
    assert full.item() == 1.0
    assert copy.item() == 0.0 or hidden > 0.5 * honest
