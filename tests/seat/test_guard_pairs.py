"""Pairs: a consumer hands on only what belongs to the very input it was given; it never mixes impl and host."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from pytest_frt.errors import GuardRefused
from pytest_frt.seat.guard import SeatWarning

if TYPE_CHECKING:
    from tests.seat.conftest import Toy


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.parametrize("structure", ["pack", "split"])
def test_pair_serves_all_members_and_counts_once(toy: Toy, x: Tensor, structure: str) -> None:
    attachment = toy.attach(structure)
    part = (
        (lambda block: block.attention(x)) if structure == "pack" else (lambda block: block.second(block.first(x), x))
    )
    got, wanted = part(toy.model.blocks[0]), part(toy.twin.blocks[0])
    assert torch.allclose(got, 2 * wanted, atol=1e-5)
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.fallbacks) == (1, 0)


SPOILS = {
    "copied": lambda x: x.clone(),
    "written_in_place": lambda x: x.add_(1),
    "shifted_view": lambda x: x[1:],
    "transposed_view": lambda x: x[:, :4].t().reshape(4, 4).repeat(1, 2),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_fanout_consumer_runs_host_on_any_other_input(toy: Toy, x: Tensor, spoil: str) -> None:
    attachment = toy.attach("pack")
    block, twin = toy.model.blocks[0].attention, toy.twin.blocks[0].attention
    mine, its = x.clone(), x.clone()
    q = block.q_proj(mine)
    with pytest.warns(SeatWarning, match="other input"):
        k = block.k_proj(SPOILS[spoil](mine))
    assert torch.allclose(q, 2 * twin.q_proj(its), atol=1e-5)
    assert torch.equal(k, twin.k_proj(SPOILS[spoil](its)))
    assert attachment.ledger.entries()[0].reasons == {"other input": 1}


def test_fanout_consumer_takes_another_view_of_the_same_elements(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("pack")
    block = toy.model.blocks[0].attention
    block.q_proj(x)
    block.k_proj(x.view(4, 8))
    assert attachment.ledger.entries()[0].fallbacks == 0


def test_fanout_output_is_handed_on_once(toy: Toy, x: Tensor) -> None:
    toy.attach("pack")
    block = toy.model.blocks[0].attention
    block.q_proj(x)
    first = block.k_proj(x)
    with pytest.warns(SeatWarning, match="other input"):
        second = block.k_proj(x)
    assert torch.allclose(first, 2 * second, atol=1e-5)
    assert torch.equal(second, toy.twin.blocks[0].attention.k_proj(x))


def test_fanout_out_of_band_runs_host_in_every_member(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("pack")
    wide = x.repeat(3, 1)
    assert torch.equal(toy.model.blocks[0].attention(wide), toy.twin.blocks[0].attention(wide))
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.band, entry.fallbacks) == (0, 1, 0)


def test_fanout_does_not_serve_yesterdays_input(toy: Toy, x: Tensor) -> None:
    toy.attach("pack")
    block, twin = toy.model.blocks[0].attention, toy.twin.blocks[0].attention
    block.q_proj(x)
    wide = x.repeat(3, 1)
    block.q_proj(wide)
    assert torch.equal(block.k_proj(wide), twin.k_proj(wide))


def test_fanout_threads_do_not_take_each_others_tickets(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("pack")
    block = toy.model.blocks[0].attention
    other = x.flip(0).contiguous()

    def work() -> None:
        with torch.no_grad():
            block.q_proj(other)

    block.q_proj(x)
    thread = Thread(target=work)
    thread.start()
    thread.join()
    block.k_proj(x)
    assert attachment.ledger.entries()[0].fallbacks == 0


MIXES = {
    "result_copied": lambda first, second, x: second(first(x).clone(), x),
    "result_written": lambda first, second, x: second(first(x).add_(1), x),
    "other_residual": lambda first, second, x: second(first(x), x + 1),
    "result_used_twice": lambda first, second, x: [second(y, x) for y in [first(x)] * 2],
    "host_shape": lambda first, second, x: (first(x), second(torch.zeros(4, 12), x)),
}


@pytest.mark.parametrize("mix", MIXES)
def test_chain_raises_rather_than_mix(toy: Toy, x: Tensor, mix: str) -> None:
    toy.attach("split")
    block = toy.model.blocks[0]
    with pytest.raises(GuardRefused, match=r"blocks\.0\.second was given .*half of seat"):
        MIXES[mix](block.first, block.second, x)


def test_chain_out_of_band_runs_host_in_both(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("split")
    wide = x.repeat(3, 1)
    block, twin = toy.model.blocks[0], toy.twin.blocks[0]
    assert torch.equal(block.second(block.first(wide), wide), twin.second(twin.first(wide), wide))
    assert attachment.ledger.entries()[0].band == 1


def test_chain_hands_the_result_on_by_identity(toy: Toy, x: Tensor) -> None:
    toy.attach("split")
    block = toy.model.blocks[0]
    result = block.first(x)
    assert block.second(result, x) is result
