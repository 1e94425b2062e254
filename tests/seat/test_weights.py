"""Slot tensors are views in the structure's layout, and their digest follows memory, not names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.errors import CertificateRefused, SpecError
from pytest_frt.seat.weight_copies import HostEngine
from pytest_frt.seat.weights import WeightHasher, slot_tensors, weights_digest
from pytest_frt.spec.weights_digest import CHUNK, SlotBytes, slots_digest


def facts(**slots: SlotRef) -> SeatFacts:
    return SeatFacts("toy", ModuleSeat("0"), {}, {}, slots, {}, "float32", {})


BOTH = facts(w=SlotRef("0.weight", transpose=True), b=SlotRef("0.bias"))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))


def test_slots_are_views_in_the_layout_of_the_structure(model: nn.Module) -> None:
    slots = slot_tensors(model, BOTH)
    assert slots["w"].shape == (6, 4)
    assert torch.equal(slots["w"].T, model[0].weight)
    assert slots["w"].data_ptr() == model[0].weight.data_ptr()
    assert not slots["b"].requires_grad


def test_buffers_can_be_slots(model: nn.Module) -> None:
    assert slot_tensors(model, facts(m=SlotRef("1.running_mean")))["m"].shape == (4,)


@pytest.mark.parametrize("name", ["0.nothing", "7.weight", "0.in_features"])
def test_missing_tensor_is_named(model: nn.Module, name: str) -> None:
    with pytest.raises(SpecError, match=name):
        slot_tensors(model, facts(w=SlotRef(name)))


def test_digest_is_that_of_the_stored_bytes(model: nn.Module) -> None:
    raw = {name: memoryview(getattr(model[0], name).detach().numpy().tobytes()) for name in ("weight", "bias")}
    slots = [SlotBytes("w", "float32", (4, 6), raw["weight"]), SlotBytes("b", "float32", (4,), raw["bias"])]
    assert weights_digest(model, BOTH) == slots_digest(slots)


def one_bit(model: nn.Module) -> None:
    model[0].weight.data.view(torch.int32)[3, 5] ^= 1


def negative_zero(model: nn.Module) -> None:
    model[0].bias.data[0] = -0.0


SPOILS: dict[str, Callable[[nn.Module], object]] = {
    "one_bit": one_bit,
    "negative_zero": negative_zero,
    "bfloat16": lambda model: model.bfloat16(),
    "rows_swapped": lambda model: model[0].weight.data.copy_(model[0].weight.data.flip(0)),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_any_change_in_memory_changes_the_digest(model: nn.Module, spoil: Callable[[nn.Module], object]) -> None:
    model[0].bias.data[0] = 0.0
    before = weights_digest(model, BOTH)
    spoil(model)
    assert weights_digest(model, BOTH) != before


def test_layout_in_memory_does_not_matter(model: nn.Module) -> None:
    before = weights_digest(model, BOTH)
    model[0].weight.data = model[0].weight.data.T.contiguous().T
    assert not model[0].weight.is_contiguous()
    assert weights_digest(model, BOTH) == before


class Counting(HostEngine):
    """An engine that says how much went through its buffers and how much they hold at most."""

    made: ClassVar[list[Counting]] = []

    def __init__(self, _device: torch.device) -> None:
        super().__init__(CHUNK, 2)
        self.blocks = 0
        self.made.append(self)

    def start(self, index: int, views: Sequence[Tensor]) -> None:
        super().start(index, views)
        self.blocks += 1


def big(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(1500, 1100), nn.Linear(1100, 1500), nn.Linear(4, 4)).requires_grad_(
        requires_grad=False
    )


PAIR = facts(a=SlotRef("0.weight"), b=SlotRef("1.weight"), c=SlotRef("0.bias"))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_strided_tensors_of_many_blocks_have_the_digest_of_contiguous_ones(threads: int) -> None:
    model, want = big(), weights_digest(big(), PAIR, threads=1)
    for layer in model:
        layer.weight.data = layer.weight.data.T.contiguous().T
    assert WeightHasher(threads=threads).digest(model, PAIR) == want


def test_strided_tensors_pass_through_a_few_buffers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "made", [])
    model, hasher = big(), WeightHasher(engine=Counting)
    assert hasher.digest(model, PAIR) == weights_digest(model, PAIR)
    assert Counting.made == []  # contiguous: read where they lie
    for layer in model:
        layer.weight.data = layer.weight.data.T.contiguous().T
    hasher.digest(model, PAIR)
    assert len(Counting.made) == 1


def test_only_the_slots_of_the_seat_are_hashed() -> None:
    hasher, model = WeightHasher(), big()
    hasher.digest(model, facts(c=SlotRef("2.weight"), d=SlotRef("2.bias")))
    assert hasher.hashed == 4 * (16 + 4)


def test_what_two_slots_share_is_hashed_once() -> None:
    hasher, model = WeightHasher(), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
    model[1].weight = model[0].weight
    both = facts(a=SlotRef("0.weight"), b=SlotRef("1.weight"))
    hasher.digest(model, both)
    assert hasher.hashed == 4 * 64
    hasher.digest(model, facts(x=SlotRef("1.weight"), y=SlotRef("2.weight")))
    assert hasher.hashed == 4 * 128


def test_a_tie_is_no_part_of_what_is_certified() -> None:
    tied, untied = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    tied[1].weight = tied[0].weight
    for layer in untied:
        layer.weight.data.copy_(tied[0].weight.data)
    both = facts(a=SlotRef("0.weight"), b=SlotRef("1.weight"))
    assert weights_digest(tied, both) == weights_digest(untied, both)


def in_place(model: nn.Module) -> None:
    model[0].weight.data.add_(0)
    with torch.no_grad():
        model[0].weight.mul_(2)


def exchanged(model: nn.Module) -> None:
    model[0].weight = nn.Parameter(model[0].weight.detach() + 1)


def shifted(model: nn.Module) -> None:
    model[0].weight.data = torch.cat([model[0].weight.data, torch.ones(1, 6)])[1:]


@pytest.mark.parametrize("spoil", [in_place, exchanged, shifted], ids=lambda spoil: spoil.__name__)
def test_what_was_hashed_before_is_not_remembered_over_a_change(
    model: nn.Module, spoil: Callable[[nn.Module], object]
) -> None:
    hasher = WeightHasher()
    before = hasher.digest(model, BOTH)
    spoil(model)
    assert hasher.digest(model, BOTH) == weights_digest(model, BOTH) != before


def test_views_of_one_storage_are_told_apart() -> None:
    model, whole = nn.Sequential(nn.Linear(4, 2), nn.Linear(4, 2)), torch.arange(16.0).view(4, 4)
    model[0].weight.data, model[1].weight.data = whole[:2], whole[2:]
    both = facts(a=SlotRef("0.weight"), b=SlotRef("1.weight"))
    slots = [
        SlotBytes(name, "float32", (2, 4), memoryview(half.numpy().tobytes()))
        for name, half in (("a", whole[:2]), ("b", whole[2:]))
    ]
    assert weights_digest(model, both) == slots_digest(slots)


def test_shards_of_a_checkpoint_give_the_digest_of_one_file(tmp_path: Path) -> None:
    state, model = {name: value.clone() for name, value in big(3).state_dict().items()}, big(4)
    for index, names in enumerate((list(state)[::2], list(state)[1::2])):
        save_file({name: state[name] for name in names}, tmp_path / f"{index}.safetensors")
    for shard in sorted(tmp_path.iterdir()):
        model.load_state_dict(load_file(shard), strict=False, assign=True)
    assert weights_digest(model, PAIR) == weights_digest(big(3), PAIR)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)], ids=str)
def test_scalars_and_empty_tensors_have_a_digest(shape: tuple[int, ...]) -> None:
    model = nn.Module()
    model.register_buffer("s", torch.zeros(shape))
    want = slots_digest([SlotBytes("s", "float32", shape, memoryview(model.s.numpy().tobytes()))])
    assert weights_digest(model, facts(s=SlotRef("s"))) == want


def test_a_tensor_without_plain_bytes_names_seat_and_slot(model: nn.Module) -> None:
    model[0].weight = nn.Parameter(torch.empty(4, 6, device="meta"))
    with pytest.raises(CertificateRefused, match=r"slot w \(0.weight\) of seat 0 is on the meta device") as caught:
        weights_digest(model, BOTH)
    assert caught.value.refusal_code == "WEIGHTS_FORM"


def test_an_uninitialised_tensor_is_named() -> None:
    with pytest.raises(SpecError, match=r"'0\.weight' of the host was never initialised"):
        weights_digest(nn.Sequential(nn.LazyLinear(4)), facts(w=SlotRef("0.weight")))
