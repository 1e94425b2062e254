"""The ledger counts eager and compiled calls, apart by reason, and starts again at a reset."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt.errors import GuardRefused
from pytest_frt.seat.ledger import Admission, Counts, Ledger

if TYPE_CHECKING:
    from tests.seat.conftest import Toy


@pytest.fixture
def counts() -> Counts:
    return Counts("a", torch.device("cpu"))


def test_entry_sums_eager_and_compiled(counts: Counts) -> None:
    counts.eager[Admission.SERVED] = 2
    counts.traced[Admission.SERVED].add_(3)
    counts.traced[Admission.ROWS].add_(4)
    counts.eager[Admission.GRAD] = 1
    counts.traced[Admission.DTYPE].add_(1)
    entry = counts.entry()
    assert (entry.served, entry.band, entry.fallbacks) == (5, 4, 2)
    assert entry.reasons == {"dtype": 1, "gradient": 1}


def test_reset_keeps_that_a_seat_was_given_back(counts: Counts) -> None:
    counts.eager[Admission.SERVED] = 2
    counts.traced[Admission.GRAD].add_(1)
    counts.restored, counts.because = True, "why"
    ledger = Ledger([counts])
    ledger.reset()
    (entry,) = ledger
    assert (entry.served, entry.fallbacks, entry.restored) == (0, 0, True)
    assert ledger.because() == {"a": "why"}


def test_every_reason_has_a_word_of_its_own() -> None:
    assert len({one.word for one in Admission}) == len(Admission)
    assert [one for one in Admission if not one.fallback] == [Admission.SERVED, Admission.ROWS]


def test_threads_lose_no_count(toy: Toy, x: torch.Tensor) -> None:
    attachment = toy.attach("ffn")
    seat = toy.model.blocks[0].mlp

    @torch.no_grad()
    def work() -> None:
        for _ in range(400):
            seat(x)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert attachment.ledger.entries()[0].served == 1600


@torch.no_grad()
@pytest.mark.parametrize("structure", ["pack", "split"])
def test_compiled_calls_are_counted_in_one_graph_and_rows_choose_the_branch(toy: Toy, structure: str) -> None:
    attachment = toy.attach(structure)
    block, twin = toy.model.blocks[0], toy.twin.blocks[0]
    run = torch.compile(block, fullgraph=True, backend="aot_eager")
    for count in (4, 4, 20, 6):
        x = torch.randn(count, 8)
        assert torch.equal(run(x), block(x) if count < 9 else twin(x))
    (entry,) = attachment.ledger.entries()
    # Each compared eager call counts too: three served beside the three compiled ones.
    assert (entry.served, entry.band, entry.fallbacks) == (6, 1, 0)


@torch.no_grad()
def test_a_graph_sees_that_its_seat_is_gone(toy: Toy, x: torch.Tensor) -> None:
    run = torch.compile(toy.model, fullgraph=True, backend="aot_eager")
    attachment = toy.attach("ffn")
    with_seat = run(x)
    with attachment.disabled():
        assert torch.equal(run(x), toy.twin(x))
    assert torch.equal(run(x), with_seat)
    attachment.detach()
    assert torch.equal(run(x), toy.twin(x))


@torch.no_grad()
def test_compiled_misfits_run_the_host_and_are_counted(toy: Toy, x: torch.Tensor) -> None:
    attachment = toy.attach("ffn")
    seat, twin = toy.model.blocks[0].mlp, toy.twin.blocks[0].mlp
    run = torch.compile(seat, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(run(x), twin(x))
    with torch.enable_grad():
        assert torch.equal(run(x), twin(x))
    assert attachment.ledger.entries()[0].reasons == {"gradient": 1, "autocast": 1}


@torch.no_grad()
def test_compiled_strict_raises(toy: Toy, x: torch.Tensor) -> None:
    toy.attach("ffn", strict=True)
    seat = toy.model.blocks[0].mlp
    run = torch.compile(seat, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(GuardRefused, match="refuses a call"):
        run(x)
