"""Freeing the originals: what only the seats used is gone, the rest stays, and a spill brings it back exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt.errors import GuardRefused, StorageFault, SwapRefused
from pytest_frt.seat.release import SPILL_FILE

if TYPE_CHECKING:
    from tests.seat.conftest import Toy


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def test_frees_exactly_the_seats_bytes_and_still_serves(toy: Toy, x: torch.Tensor) -> None:
    attachment = toy.attach("ffn")
    served = toy.model(x)
    assert attachment.finalize() == 2 * 8 * 12 * 4
    assert attachment.finalize() == 0
    assert toy.model.blocks[0].mlp.up.weight.numel() == 0
    assert torch.equal(toy.model(x), served)


@pytest.mark.parametrize("spoil", [lambda x: x.repeat(9, 1), lambda x: x.double()], ids=["rows", "dtype"])
@pytest.mark.parametrize(("structure", "at"), [("ffn", "mlp"), ("pack", "attention.q_proj"), ("split", "first")])
def test_what_the_impl_cannot_answer_raises_from_then_on(
    toy: Toy, x: torch.Tensor, structure: str, at: str, spoil: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    attachment = toy.attach(structure)
    attachment.finalize()
    with pytest.raises(GuardRefused, match="originals were freed"):
        toy.model.blocks[0].get_submodule(at)(spoil(x))
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.band, entry.fallbacks) == (0, 0, 0)


def test_state_of_freed_seats_is_refused_not_empty(toy: Toy) -> None:
    toy.attach("ffn").finalize()
    with pytest.raises(SwapRefused, match="originals were freed"):
        toy.model.state_dict()


def test_tensor_used_elsewhere_stays(toy: Toy, x: torch.Tensor) -> None:
    toy.model.embed.weight = toy.model.blocks[0].attention.q_proj.weight
    attachment = toy.attach("pack")
    assert attachment.finalize() == 2 * 8 * 8 * 4
    assert toy.model.embed.weight.numel() == 64
    toy.model(x)


def test_spill_brings_the_originals_back_exactly(toy: Toy, tmp_path: Path) -> None:
    attachment = toy.attach("ffn", "pack", "split")
    attachment.finalize(tmp_path)
    assert (tmp_path / SPILL_FILE).stat().st_size > 0
    attachment.detach()
    assert toy.is_twin()
    assert not (tmp_path / SPILL_FILE).exists()


def test_without_a_spill_detach_is_refused(toy: Toy) -> None:
    attachment = toy.attach("ffn")
    attachment.finalize()
    for action in (attachment.detach, attachment.disable):
        with pytest.raises(SwapRefused, match="originals were freed"):
            action()
    assert attachment.active


def spoil_last_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "words"), [(spoil_last_byte, "written was"), (Path.unlink, "cannot be read")], ids=["edited", "deleted"]
)
def test_spill_that_is_not_what_was_written_is_refused(
    toy: Toy, tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    attachment = toy.attach("ffn")
    attachment.finalize(tmp_path)
    spoil(tmp_path / SPILL_FILE)
    with pytest.raises(SwapRefused, match=words):
        attachment.detach()
    assert attachment.active


def test_spill_is_never_overwritten(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / SPILL_FILE).write_text("somebody's")
    attachment = toy.attach("ffn")
    with pytest.raises(StorageFault, match="exists"):
        attachment.finalize(tmp_path)
    attachment.detach()
    assert toy.is_twin()


@pytest.mark.filterwarnings("ignore::pytest_frt.seat.guard.SeatWarning")
@pytest.mark.parametrize("spoil", ["detached", "disabled", "changed"])
def test_seats_that_still_need_the_host_are_not_freed(toy: Toy, spoil: str) -> None:
    attachment = toy.attach("ffn")
    if spoil == "detached":
        attachment.detach()
    elif spoil == "disabled":
        attachment.disable()
    else:
        toy.model.blocks[0].mlp.up.weight.mul_(2)
    with pytest.raises(SwapRefused):
        attachment.finalize()
    assert toy.model.blocks[0].mlp.up.weight.numel() == 96
