"""Attach and detach are transactions: a refusal or a detach leaves the host bit for bit, in any order."""

from __future__ import annotations

import copy
import gc
import io
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, RoutedSeat, SlotRef
from pytest_frt.errors import SwapRefused
from pytest_frt.seat import attachment, swap
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.module import SeatModule

if TYPE_CHECKING:
    from tests.seat.conftest import Toy

ALL = ("ffn", "pack", "split")


def moved(bound: BoundSeat, path: str) -> BoundSeat:
    return replace(bound, facts=replace(bound.facts, seat=ModuleSeat(path)))


def unknown_slot(bound: BoundSeat) -> BoundSeat:
    return replace(bound, facts=replace(bound.facts, slots={"w_up": SlotRef("blocks.0.mlp.nothing")}))


SPOILS: dict[str, tuple[Callable[[BoundSeat], BoundSeat], str]] = {
    "same_place": (lambda bound: bound, r"blocks\.0\.mlp and blocks\.0\.mlp overlap"),
    "inside": (lambda bound: moved(bound, "blocks.0.mlp.up"), r"blocks\.0\.mlp and blocks\.0\.mlp\.up overlap"),
    "around": (lambda bound: moved(bound, "blocks.0"), r"blocks\.0 and blocks\.0\.mlp overlap"),
    "missing": (lambda bound: moved(bound, "blocks.7.mlp"), "no module 'blocks.7.mlp'"),
    "root": (lambda bound: moved(bound, ""), "is the model itself"),
    "no_tensor": (unknown_slot, "nothing"),
    "no_slots": (lambda bound: replace(bound, facts=replace(bound.facts, slots={})), "names no host tensor"),
    "routed": (
        lambda bound: replace(bound, facts=replace(bound.facts, seat=RoutedSeat("blocks.0.mlp", "act"))),
        "only modules",
    ),
    "unknown_dtype": (lambda bound: replace(bound, facts=replace(bound.facts, dtype="float7")), "no dtype"),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_refusal_names_the_fault_and_changes_nothing(toy: Toy, spoil: str) -> None:
    change, words = SPOILS[spoil]
    good, bad = toy.bind(("ffn", 0), ("ffn", 1))
    bad = change(good if spoil in ("same_place", "inside", "around") else bad)
    with pytest.raises(SwapRefused, match=words):
        swap.attach(toy.model, [good, bad])
    assert toy.is_twin()


def test_nothing_to_attach_is_refused(toy: Toy) -> None:
    with pytest.raises(SwapRefused, match="nothing to attach"):
        swap.attach(toy.model, [])


@pytest.mark.parametrize("path", ["blocks.0.mlp.up", "blocks.0"], ids=["inside", "around"])
def test_overlap_with_another_attachment_names_both(toy: Toy, path: str) -> None:
    (bound,) = toy.bind(("ffn", 0))
    first = swap.attach(toy.model, [bound])
    with pytest.raises(SwapRefused, match=rf"seats blocks\.0\.mlp and {path}"):
        swap.attach(toy.model, [moved(bound, path)])
    first.detach()
    assert toy.is_twin()


def test_training_mode_is_refused(toy: Toy) -> None:
    bound = toy.bind(("ffn", 0))
    toy.model.train()
    with pytest.raises(SwapRefused, match="in training mode"):
        swap.attach(toy.model, bound)


def test_module_compiled_in_place_is_refused(toy: Toy) -> None:
    toy.model.blocks[0].mlp.compile(backend="eager")
    with pytest.raises(SwapRefused, match="compiled in place"):
        toy.attach("ffn")


def test_write_that_fails_half_way_is_undone(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    put, calls = attachment.Place.put, []

    def third_fails(self: attachment.Place, module: nn.Module) -> None:
        calls.append(self.path)
        if len(calls) == 3:
            raise MemoryError
        put(self, module)

    monkeypatch.setattr(attachment.Place, "put", third_fails)
    with pytest.raises(MemoryError):
        toy.attach(*ALL)
    assert toy.is_twin()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_attachments_detach_in_any_order(toy: Toy, order: tuple[int, ...]) -> None:
    attachments = [toy.attach(one) for one in ALL]
    for index in order:
        assert not toy.is_twin()
        attachments[index].detach()
        attachments[index].detach()
    assert toy.is_twin()
    assert not attachments[0].active


def test_state_and_names_are_the_hosts_while_attached(toy: Toy) -> None:
    before = {name: id(one) for name, one in toy.model.named_parameters()}
    toy.attach(*ALL)
    assert {name: id(one) for name, one in toy.model.named_parameters()} == before
    mine, its = toy.model.state_dict(), toy.twin.state_dict()
    assert list(mine) == list(its)
    assert mine._metadata == its._metadata
    assert [path for path, _ in toy.model.named_modules()] == [path for path, _ in toy.twin.named_modules()]


def test_own_state_format_of_the_host_class_is_kept(toy: Toy) -> None:
    class Versioned(type(toy.model.blocks[0].mlp)):  # type: ignore[misc]
        _version = 7

        def get_extra_state(self) -> int:
            return 5

        def set_extra_state(self, state: int) -> None: ...

    toy.model.blocks[0].mlp.__class__ = Versioned
    wanted = toy.model.state_dict()
    toy.attach("ffn")
    got = toy.model.state_dict()
    assert list(got) == list(wanted)
    assert got._metadata == wanted._metadata


CONVERSIONS: dict[str, Callable[[nn.Module], object]] = {
    "half": lambda model: model.half(),
    "to_dtype": lambda model: model.to(torch.bfloat16),
    "to_meta": lambda model: model.to("meta"),
    "to_empty": lambda model: model.to_empty(device="cpu"),
    "block": lambda model: model.blocks[0].double(),
    "seat": lambda model: model.blocks[0].mlp.double(),
    "inner": lambda model: model.load_state_dict({}, strict=False),
    "load": lambda model: model.load_state_dict(model.state_dict()),
    "load_block": lambda model: model.blocks[0].load_state_dict({}, strict=False),
    "load_seat": lambda model: model.blocks[0].mlp.load_state_dict({}, strict=False),
    "compile_seat": lambda model: model.blocks[0].mlp.compile(),
}


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_conversion_or_load_is_refused_before_the_first_tensor(toy: Toy, convert: str) -> None:
    attachment = toy.attach("ffn", "split")
    with pytest.raises(SwapRefused, match="is attached"):
        CONVERSIONS[convert](toy.model)
    attachment.detach()
    assert toy.is_twin()


def test_locks_stay_until_the_last_seat_is_gone(toy: Toy) -> None:
    first, second = toy.attach("ffn"), toy.attach("split")
    first.detach()
    with pytest.raises(SwapRefused, match=r"blocks\.0\.first\+second"):
        toy.model.half()
    second.detach()
    assert toy.model.double().embed.weight.dtype is torch.float64


def test_module_beside_the_seats_can_be_converted(toy: Toy) -> None:
    toy.attach("ffn")
    assert toy.model.blocks[1].double().mlp.up.weight.dtype is torch.float64


def test_move_that_changes_nothing_is_allowed(toy: Toy) -> None:
    attachment = toy.attach(*ALL)
    toy.model.to("cpu").float().to(torch.float32)
    attachment.detach()
    assert toy.is_twin()


def test_copy_and_pickle_are_plain_hosts(toy: Toy, x: Tensor) -> None:
    attachment = toy.attach(*ALL)
    file = io.BytesIO()
    torch.save(toy.model.blocks, file)
    file.seek(0)
    for blocks in (copy.deepcopy(toy.model).blocks, torch.load(file, weights_only=False)):
        assert not any(isinstance(one, SeatModule) for one in blocks.modules())
        assert torch.equal(blocks[0](x), toy.twin.blocks[0](x))
        assert blocks.double()[0].mlp.up.weight.dtype is torch.float64
    attachment.detach()
    assert toy.is_twin()


def test_pickle_loads_where_the_project_is_not_installed(toy: Toy) -> None:
    toy.attach(*ALL)
    file = io.BytesIO()
    torch.save(toy.model.blocks[0].mlp.up, file)
    torch.save(toy.model.blocks, file)
    assert b"pytest_frt" not in file.getvalue()


def test_hooks_of_before_and_during_fire_once_and_stay_the_hosts(toy: Toy, x: Tensor) -> None:
    heard: list[str] = []
    toy.model.blocks[0].mlp.register_forward_pre_hook(lambda *_: heard.append("before"))
    attachment = toy.attach("ffn")
    toy.model.blocks[0].mlp.register_forward_hook(lambda *_: heard.append("during"))
    with torch.no_grad():
        toy.model(x)
        toy.model(x.repeat(9, 1))
    attachment.detach()
    toy.model(x)
    assert heard == ["before", "during"] * 3


def test_tied_module_is_replaced_at_every_place(toy: Toy, x: Tensor) -> None:
    for host in (toy.model, toy.twin):
        host.blocks[1].mlp = host.blocks[0].mlp
    attachment = toy.attach("ffn")
    with torch.no_grad():
        toy.model(x)
    assert attachment.ledger.entries()[0].served == 2
    assert toy.model.blocks[1].mlp is toy.model.blocks[0].mlp
    attachment.detach()
    assert toy.is_twin()


def test_two_seats_on_one_tied_module_are_refused(toy: Toy) -> None:
    toy.model.blocks[1].mlp = toy.model.blocks[0].mlp
    with pytest.raises(SwapRefused, match=r"blocks\.0\.mlp and blocks\.1\.mlp overlap"):
        swap.attach(toy.model, toy.bind(("ffn", 0), ("ffn", 1)))


def test_disable_runs_the_host_and_enable_the_same_seats(toy: Toy, x: Tensor) -> None:
    with toy.attach(*ALL) as attachment, torch.no_grad():
        seated = toy.model(x)
        with attachment.disabled():
            assert torch.equal(toy.model(x), toy.twin(x))
            with pytest.raises(SwapRefused, match="attached"):
                toy.model.half()
        assert torch.equal(toy.model(x), seated)
        attachment.disable()
        with attachment.disabled():
            pass
        assert torch.equal(toy.model(x), toy.twin(x))
    assert toy.is_twin()
    with pytest.raises(SwapRefused, match="detached"):
        attachment.enable()


def test_detach_refuses_over_a_foreign_module_and_changes_nothing(toy: Toy) -> None:
    attachment = toy.attach("ffn", "split")
    seat, toy.model.blocks[0].mlp = toy.model.blocks[0].mlp, nn.Identity()
    with pytest.raises(SwapRefused, match=r"blocks\.0\.mlp: another module"):
        attachment.detach()
    assert isinstance(toy.model.blocks[0].first, SeatModule)
    toy.model.blocks[0].mlp = seat
    attachment.detach()
    assert toy.is_twin()


def test_changed_host_tensors_are_named(toy: Toy) -> None:
    attachment = toy.attach(*ALL)
    assert attachment.unsound() == {}
    with torch.no_grad():
        toy.model.blocks[0].mlp.up.weight.mul_(2)
    toy.model.blocks[0].first.dense.bias = nn.Parameter(torch.zeros(12))
    assert attachment.unsound() == {"blocks.0.mlp": ("weight",), "blocks.0.first+second": ("bias",)}


def test_model_dropped_while_attached_is_freed(toy: Toy) -> None:
    toy.attach(*ALL)
    gone = weakref.ref(toy.model)
    del toy.model
    gc.collect()
    assert gone() is None
