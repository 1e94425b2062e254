"""An admitted call runs the impl, every other one the host bit for bit, and each is counted by its reason."""

from __future__ import annotations

import statistics
import timeit
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.errors import GuardRefused, SwapRefused
from pytest_frt.seat.guard import SELF_DETACH_AFTER, SeatWarning
from pytest_frt.seat.swap import attach

if TYPE_CHECKING:
    from tests.seat.conftest import Toy

pytestmark = pytest.mark.usefixtures("_no_grad")
Misfit = tuple[Callable[[Tensor], Tensor], Callable[[], AbstractContextManager[object]]]

MISFITS: dict[str, Misfit] = {
    "autocast": (lambda x: x, lambda: torch.autocast("cpu", torch.bfloat16)),
    "gradient": (lambda x: x, torch.enable_grad),
    "width": (lambda x: x[..., :5], nullcontext),
    "dtype": (lambda x: x.double(), nullcontext),
    "device": (lambda x: x.to("meta"), nullcontext),
}


@pytest.fixture
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def answer(module: nn.Module, x: Tensor) -> Tensor | str:
    """Return what the module returns, or the text of what it raises."""
    try:
        return module(x)
    except RuntimeError as fault:
        return str(fault)


@pytest.mark.parametrize("reason", MISFITS)
def test_misfit_runs_host_exactly_warns_once_and_is_counted(toy: Toy, x: Tensor, reason: str) -> None:
    spoil, setting = MISFITS[reason]
    attachment = toy.attach("ffn")
    with setting():
        with pytest.warns(SeatWarning, match=reason):
            got = answer(toy.model.blocks[0].mlp, spoil(x))
        wanted = answer(toy.twin.blocks[0].mlp, spoil(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer(toy.model.blocks[0].mlp, spoil(x))
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.fallbacks, entry.reasons) == (0, 2, {reason: 2})
    same = got == wanted if isinstance(got, str) else (got.device.type == "meta" or torch.equal(got, wanted))
    assert same, (got, wanted)


@pytest.mark.parametrize(("count", "served"), [(0, 0), (1, 1), (8, 1), (9, 0)], ids=["none", "low", "high", "over"])
def test_rows_outside_band_run_host_as_declared_dispatch(toy: Toy, x: Tensor, count: int, served: int) -> None:
    attachment = toy.attach("ffn")
    rows = x[:1].expand(count, -1)
    got, wanted = toy.model.blocks[0].mlp(rows), toy.twin.blocks[0].mlp(rows)
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.band, entry.fallbacks) == (served, 1 - served, 0)
    assert torch.allclose(got, wanted * (1 + served))
    assert served or torch.equal(got, wanted)


def test_rows_are_the_product_of_leading_axes(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("ffn")
    toy.model.blocks[0].mlp(x.reshape(2, 2, -1))
    toy.model.blocks[0].mlp(x.expand(3, 4, -1))
    assert [(one.served, one.band) for one in attachment.ledger.entries()] == [(1, 1)]


def test_repeated_shape_takes_the_short_check_and_is_still_examined(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("ffn")
    seat = toy.model.blocks[0].mlp
    first, second = seat(x), seat(x)
    assert torch.equal(first, second)
    with pytest.warns(SeatWarning, match="dtype"):
        answer(seat, x.double())
    with torch.autocast("cpu", torch.bfloat16), pytest.warns(SeatWarning, match="autocast"):
        seat(x)
    assert attachment.ledger.entries()[0].served == 2


@pytest.mark.parametrize("call", ["keyword", "two_inputs", "no_tensor"])
def test_call_form(toy: Toy, x: Tensor, call: str) -> None:
    attachment = toy.attach("ffn")
    seat = toy.model.blocks[0].mlp
    if call == "keyword":
        assert torch.equal(seat(x=x), seat(x))
        assert attachment.ledger.entries()[0].served == 2
        return
    with pytest.warns(SeatWarning, match="call form"), pytest.raises((TypeError, AttributeError)):
        seat(x, x) if call == "two_inputs" else seat([x])
    assert attachment.ledger.entries()[0].reasons == {"call form": 1}


def test_strict_raises_before_counting_and_lets_band_dispatch_run(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("ffn", strict=True)
    seat = toy.model.blocks[0].mlp
    with pytest.raises(GuardRefused, match=r"blocks\.0\.mlp refuses a call \(dtype\).*float64.*float32"):
        seat(x.double())
    seat(x.repeat(3, 1))
    (entry,) = attachment.ledger.entries()
    assert (entry.fallbacks, entry.band) == (0, 1)


@pytest.mark.filterwarnings("ignore::pytest_frt.seat.guard.SeatWarning")
@pytest.mark.parametrize("structure", ["ffn", "pack", "split"])
def test_misfits_in_a_row_give_the_seat_back(toy: Toy, x: Tensor, structure: str) -> None:
    attachment = toy.attach(structure)
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(SELF_DETACH_AFTER - 1):
            toy.model.blocks[0](x)
    toy.model.blocks[0](x)
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(SELF_DETACH_AFTER):
            assert not toy.is_twin()
            toy.model.blocks[0](x)
    (entry,) = attachment.ledger.entries()
    assert entry.restored
    assert f"{SELF_DETACH_AFTER} consecutive" in attachment.ledger.because()[entry.seat]
    assert torch.equal(toy.model(x), toy.twin(x))
    attachment.detach()
    assert toy.is_twin()


def test_weight_written_during_training_gives_the_seat_back(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("ffn")
    toy.model.train()
    toy.model.blocks[0].mlp.up.weight.mul_(2)
    with pytest.warns(SeatWarning, match="given back.*weight changed"):
        toy.model.eval()
    toy.twin.blocks[0].mlp.up.weight.mul_(2)
    assert torch.equal(toy.model(x), toy.twin(x))
    assert attachment.ledger.entries()[0].restored


def test_weight_written_after_a_gradient_call_gives_the_seat_back(toy: Toy, x: Tensor) -> None:
    toy.attach("ffn")
    with torch.enable_grad(), pytest.warns(SeatWarning, match="gradient"):
        toy.model(x).sum().backward()
    toy.model.blocks[0].mlp.up.weight.mul_(2)
    with pytest.warns(SeatWarning, match="given back"):
        got = toy.model(x)
    toy.twin.blocks[0].mlp.up.weight.mul_(2)
    assert torch.equal(got, toy.twin(x))


def test_gradient_mode_without_anything_to_differentiate_is_served(toy: Toy, x: Tensor) -> None:
    toy.model.requires_grad_(requires_grad=False)
    attachment = toy.attach("ffn")
    with torch.enable_grad():
        toy.model(x)
    assert attachment.ledger.entries()[0].served == 1


def test_inference_mode_is_served(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach("ffn", "pack", "split")
    with torch.inference_mode():
        toy.model(x.clone())
    assert [(one.served, one.fallbacks) for one in attachment.ledger.entries()] == [(1, 0)] * 3


def test_host_attributes_show_through(toy: Toy) -> None:
    toy.attach("pack")
    q_proj = toy.model.blocks[0].attention.q_proj
    assert q_proj.weight is toy.model.get_parameter("blocks.0.attention.q_proj.weight")
    assert (q_proj.in_features, q_proj.weight.dtype, q_proj.training) == (8, torch.float32, False)
    assert not isinstance(q_proj, nn.Linear)
    q_proj.note = 3
    assert q_proj._frt_host.note == 3
    with pytest.raises(AttributeError, match="nothing"):
        q_proj.nothing  # noqa: B018


WRITES = {"replaced": lambda seat: setattr(seat, "up", nn.Linear(8, 12)), "deleted": lambda seat: delattr(seat, "up")}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_replacing_what_was_packed_is_refused(toy: Toy, write: Callable[[nn.Module], None]) -> None:
    attachment = toy.attach("ffn")
    with pytest.raises(SwapRefused, match=r"blocks\.0\.mlp is attached: its up cannot be"):
        write(toy.model.blocks[0].mlp)
    attachment.detach()
    assert toy.is_twin()


class Empty(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def test_admitted_call_costs_at_most_one_and_a_half_empty_modules(toy: Toy, x: Tensor) -> None:
    (bound,) = toy.bind(("ffn", 0))
    empty = Empty()
    attach(toy.model, [replace(bound, module=empty)])
    seat = toy.model.blocks[0].mlp
    seat(x)
    ratios = []
    for _ in range(30):
        spent = [min(timeit.repeat(lambda one=one: one(x), number=300, repeat=3)) for one in (empty, seat)]
        ratios.append(spent[1] / spent[0])
    assert statistics.median(ratios) <= 1.5, ratios
