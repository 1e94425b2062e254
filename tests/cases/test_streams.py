"""Case C23, and C24 on two devices: work on the wrong stream, work on the wrong device. Skipped without the GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
Part = Callable[[Tensor], Tensor]
DELAY = 400_000_000
"""Clock cycles that the producer sleeps: a fifth of a second, far longer than a launch."""
ROWS, WIDTH = 64, 64


def weight(device: str) -> Tensor:
    return torch.linspace(-1, 1, WIDTH * WIDTH, device=device).view(WIDTH, WIDTH)


def sound(x: Tensor) -> Tensor:
    return x @ weight(str(x.device))


def on_the_default_stream(x: Tensor) -> Tensor:
    with torch.cuda.stream(torch.cuda.default_stream()):
        return sound(x)


def waits_for_its_producer(part: Part) -> bool:
    """Run a part on a side stream behind a producer that takes its time; report whether it saw what was produced."""
    made, buffer = torch.ones(ROWS, WIDTH, device="cuda"), torch.zeros(ROWS, WIDTH, device="cuda")
    wanted, side = sound(made), torch.cuda.Stream()
    part(buffer)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(DELAY)
        buffer.copy_(made)
        got = part(buffer)
    torch.cuda.synchronize()
    return torch.allclose(got, wanted)


def replays_on_new_inputs(part: Part) -> bool:
    """Capture a part on a side stream, change its input and replay; report whether the answer follows the input."""
    buffer, graph, side = torch.ones(ROWS, WIDTH, device="cuda"), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        part(buffer)
    torch.cuda.synchronize()
    try:
        with torch.cuda.graph(graph, stream=side):
            got = part(buffer)
    except RuntimeError:  # work outside the capturing stream ends the capture
        return False
    buffer.fill_(2.0)
    graph.replay()
    torch.cuda.synchronize()
    return torch.allclose(got, sound(buffer))


@pytest.mark.case("C23")
@needs_gpu
@torch.no_grad()
@pytest.mark.parametrize(("part", "right"), [(on_the_default_stream, False), (sound, True)], ids=["default", "current"])
def test_c23_work_on_the_default_stream_races_its_producer(part: Part, *, right: bool) -> None:
    assert waits_for_its_producer(part) is right


def answers_kept(x: Tensor) -> Tensor:
    """Compute while nothing is captured, and hand out that answer in the graph: what is replayed is stale."""
    if not torch.cuda.is_current_stream_capturing():
        KEPT[:] = [sound(x)]
    return KEPT[0]


KEPT: list[Tensor] = []


@pytest.mark.case("C23")
@needs_gpu
@torch.no_grad()
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning")
@pytest.mark.parametrize(("part", "right"), [(answers_kept, False), (sound, True)], ids=["stale", "captured"])
def test_c23_a_graph_replays_on_new_inputs(part: Part, *, right: bool) -> None:
    assert replays_on_new_inputs(part) is right


def on_the_current_device(x: Tensor) -> Tensor:
    here = f"cuda:{torch.cuda.current_device()}"
    return (x.to(here) @ weight(here)).clone()


@pytest.mark.case("C24")
@needs_two
@torch.no_grad()
@pytest.mark.parametrize(("part", "right"), [(on_the_current_device, False), (sound, True)], ids=["current", "inputs"])
def test_c24_tensors_on_the_second_device_while_the_first_is_current(part: Part, *, right: bool) -> None:
    x = torch.ones(ROWS, WIDTH, device="cuda:1")
    with torch.cuda.device(0):
        assert (part(x).device == x.device) is right
