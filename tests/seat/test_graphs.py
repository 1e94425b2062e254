"""Seats inside CUDA graphs, on side streams and on a second device; without a GPU only the bookkeeping is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from pytest_frt.errors import GuardRefused, SwapRefused
from pytest_frt.seat.graphs import CapturedGraph
from pytest_frt.seat.guard import SeatWarning
from pytest_frt.seat.ledger import Admission, Counts, Ledger

if TYPE_CHECKING:
    from tests.seat.conftest import Toy

ROWS = 3
SEATS = ("ffn", "pack")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")


class Replays:
    """A graph that captured two served calls of seat ``a``."""

    def __init__(self) -> None:
        self.replays = 0

    def counts(self, seat: str) -> tuple[int, ...]:
        return tuple(2 * self.replays * (seat == "a" and kind is Admission.SERVED) for kind in Admission)

    def reset(self) -> None:
        self.replays = 0


def test_replays_count_beside_eager_calls_and_start_again_with_them() -> None:
    ledger, graph = Ledger([Counts("a", torch.device("cpu")), Counts("b", torch.device("cpu"))]), Replays()
    ledger.add_graph(graph)
    before = ledger.snapshot()
    graph.replays = 5
    assert [entry.served for entry in ledger] == [10, 0]
    ledger.reset()
    assert (ledger.snapshot(), [entry.served for entry in ledger]) == (before, [0, 0])


def test_captured_calls_are_taken_out_of_the_eager_counts() -> None:
    counts = Counts("a", torch.device("cpu"))
    ledger = Ledger([counts])
    before = ledger.snapshot()
    counts.eager[Admission.SERVED] += 3
    ledger.restore(before)
    assert counts.eager[Admission.SERVED] == 0


@pytest.fixture
def on_gpu(toy: Toy) -> Toy:
    toy.model.cuda()
    toy.twin.cuda()
    return toy


def warm(run: Callable[[], object]) -> None:
    """Run on a side stream, as capture asks for: libraries make their workspaces now."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)


def drawn(seed: int, rows: int = ROWS, device: str = "cuda") -> Tensor:
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed)).to(device)


@needs_gpu
@torch.no_grad()
def test_replay_computes_on_new_inputs_and_is_counted_by_the_device(on_gpu: Toy) -> None:
    attachment = on_gpu.attach(*SEATS)
    x, outside = drawn(0), drawn(9)
    warm(lambda: on_gpu.model(x))
    attachment.ledger.reset()
    with CapturedGraph(attachment.ledger) as graph:
        y = on_gpu.model(x)
    assert [entry.served for entry in attachment.ledger] == [0, 0]
    assert graph.census == dict.fromkeys((entry.seat for entry in attachment.ledger), 1)
    for turn in range(1, 5):
        x.copy_(drawn(turn))
        graph.replay()
        torch.testing.assert_close(y, on_gpu.model(drawn(turn)))
    assert not torch.equal(y, on_gpu.model(outside))
    assert graph.replays == 4
    assert [entry.served for entry in attachment.ledger] == [4 + 5, 4 + 5]
    attachment.ledger.reset()
    assert [entry.served for entry in attachment.ledger] == [0, 0]


@needs_gpu
@torch.no_grad()
def test_graph_that_is_never_replayed_serves_nothing(on_gpu: Toy) -> None:
    attachment = on_gpu.attach(*SEATS)
    x = drawn(0)
    warm(lambda: on_gpu.model(x))
    attachment.ledger.reset()
    with CapturedGraph(attachment.ledger):
        on_gpu.model(x)
    assert [entry.served for entry in attachment.ledger] == [0, 0]


@needs_gpu
@torch.no_grad()
def test_fallback_inside_a_graph_is_refused(on_gpu: Toy) -> None:
    attachment = on_gpu.attach("ffn")
    x, seat = drawn(0), on_gpu.model.blocks[0].mlp
    graph = CapturedGraph(attachment.ledger)
    with (
        pytest.raises(GuardRefused, match="inside a captured graph"),
        pytest.warns(SeatWarning),
        graph,
        torch.autocast("cuda", torch.bfloat16),
    ):
        seat(x)


@needs_gpu
@torch.no_grad()
def test_rows_outside_the_band_are_dispatched_inside_a_graph(on_gpu: Toy) -> None:
    attachment = on_gpu.attach("ffn")
    x = drawn(0, rows=11)
    warm(lambda: on_gpu.model(x))
    attachment.ledger.reset()
    with CapturedGraph(attachment.ledger) as graph:
        y = on_gpu.model(x)
    graph.replay()
    torch.testing.assert_close(y, on_gpu.twin(x))
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.band, entry.fallbacks) == (0, 1, 0)


@needs_gpu
@torch.no_grad()
def test_side_stream_gives_the_answer_of_the_default_stream(on_gpu: Toy) -> None:
    on_gpu.attach(*SEATS)
    x = drawn(3)
    wanted, side = on_gpu.model(x), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        late = x
        for _ in range(20):
            late = late @ torch.eye(8, device="cuda")
        got = on_gpu.model(late)
    side.synchronize()
    torch.testing.assert_close(got, wanted)


@needs_gpu
def test_leaving_the_device_is_refused_and_staying_is_not(on_gpu: Toy) -> None:
    attachment = on_gpu.attach(*SEATS)
    on_gpu.model.cuda()
    with pytest.raises(SwapRefused):
        on_gpu.model.cpu()
    assert all(tensor.is_cuda for tensor in on_gpu.model.state_dict().values())
    attachment.detach()
    on_gpu.model.cpu()


@needs_two
@torch.no_grad()
def test_second_device_serves_while_the_first_is_current(toy: Toy) -> None:
    toy.model.to("cuda:1")
    attachment = toy.attach(*SEATS)
    x = drawn(1, device="cuda:1")
    with torch.cuda.device(0):
        got = toy.model(x)
    with torch.cuda.device(1):
        torch.testing.assert_close(got, toy.model(x))
    assert [entry.served for entry in attachment.ledger] == [2, 2]


@needs_two
@torch.no_grad()
def test_input_on_another_device_runs_the_host(toy: Toy) -> None:
    toy.model.to("cuda:1")
    attachment = toy.attach("ffn")
    with pytest.raises(RuntimeError), pytest.warns(SeatWarning):
        toy.model.blocks[0].mlp(drawn(1, device="cuda:0"))
    (entry,) = attachment.ledger.entries()
    assert entry.reasons == {"device": 1}
