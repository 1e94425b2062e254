"""Bug history, memory: what a bind, a calibration, a call and a declined form leave behind, counted in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pytest_frt.contracts.impl import BindSeat, Scales
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.seat import kernels
from pytest_frt.seat.bind import bind_unit
from pytest_frt.seat.calibrate import survey
from tests.impls.conftest import Unit, make_unit
from tests.seat.conftest import Host, rows, toy_impl, toy_structure

from .conftest import place

SEEN = [
    ("linear_proj/torch_packed", "w16a32"),
    ("qkv_pack/torch_packed", "none"),
    ("vision_ffn/torch_int8", "w8a8_dynamic"),
    ("decoder_ffn/torch_int8", "w8a16_decode"),
]
CALLS = (1, 2, 3, 5, 8)


class Kept(TorchDispatchMode):
    """Remembers the storage of every tensor made while it is on, held by Python or by a graph, and keeps none alive."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        known = {one.untyped_storage()._cdata for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        for one in tree_leaves(value):
            if isinstance(one, Tensor) and one.untyped_storage()._cdata not in known:
                storage = one.untyped_storage()
                self._made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return value

    def alive(self) -> int:
        """Return the bytes that are still held."""
        return sum(size for storage, size in self._made.values() if not storage.expired())


@pytest.fixture(scope="module")
def units() -> dict[str, Unit]:
    kernel = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    return {name: make_unit(name, scheme, kernel) for name, scheme in SEEN}


def packing(seat: BindSeat, _scales: Scales, _kernel: ModuleType) -> nn.Module:
    """Bind as most impls do: a step between the host's weight and what is packed."""
    packed = (seat.weights["w"].tanh() * 2.0).exp()  # a graph would hold the result of tanh too
    part = nn.Module()
    part.forward = lambda x: x @ packed
    return part


def bound_with_gradients_on(monkeypatch: pytest.MonkeyPatch, *, careful: bool) -> int:
    """Bind on parameters that ask for gradients; return the bytes kept."""
    at, impl = place("linear_proj"), toy_impl("linear_proj")
    impl.bind = packing  # type: ignore[attr-defined]
    at.model.requires_grad_()
    structure = replace(toy_structure("linear_proj"), inputs=(replace(toy_structure("x").inputs[0], shape=("M", "K")),))
    structure = replace(structure, outputs=(replace(structure.outputs[0], shape=("M", "N")),))
    with torch.enable_grad(), monkeypatch.context() as patch, Kept() as kept:
        if not careful:
            patch.setattr(torch, "no_grad", torch.enable_grad)
            patch.setattr(Tensor, "detach", lambda self: self)
        bound, _ = bind_unit(
            at.model,
            [at.facts],
            structure=structure,
            impl=impl,
            scheme="none",
            scales={},
            kernel=ModuleType("kernel"),
            rows=(1, 8),
        )
    assert len(bound) == 1
    return kept.alive()


@pytest.mark.parametrize(("careful", "packs"), [(True, 1), (False, 2)], ids=["as_it_is", "in_grad_mode"])
def test_bind_keeps_what_is_packed_and_no_graph(monkeypatch: pytest.MonkeyPatch, *, careful: bool, packs: int) -> None:
    weight = place("linear_proj").weights["w"]
    assert bound_with_gradients_on(monkeypatch, careful=careful) == packs * weight.nbytes


POINT = SeatFacts(
    "toy", ModuleSeat("blocks.0.mlp"), {}, {}, {}, {}, "float32", {"x_after_norm": PointAt("blocks.0.mlp")}
)


def most_alive(calibrate: Callable[[nn.Module, Iterator[Callable[[], object]]], object]) -> int:
    """Return the largest number of host outputs alive at the start of a calibration pass."""
    model, outputs, most = Host().eval(), list[StorageWeakRef](), [0]

    def one(index: int) -> Tensor:
        most[0] = max(most[0], sum(not each.expired() for each in outputs))
        out: Tensor = model(rows(4 + index))
        outputs.append(StorageWeakRef(out.untyped_storage()))
        return out

    def passes() -> Iterator[Callable[[], object]]:
        for index in range(4):
            yield lambda index=index: one(index)

    with torch.no_grad():
        calibrate(model, passes())
    return most[0]


def test_calibration_keeps_no_host_output_alive() -> None:
    scheme = place("linear_proj", scheme="fp8_static").scheme
    assert most_alive(lambda model, passes: survey(model, passes, [POINT], scheme)) == 0
    assert most_alive(lambda _model, passes: [run() for run in passes]) == 3


class BufferPerHeight(nn.Module):
    """Keeps an output buffer for every number of rows it has met."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part, self.buffers_by_rows = part, dict[int, Tensor]()

    def forward(self, x: Tensor) -> Any:
        value = self.part(x)
        first = value[0] if isinstance(value, tuple) else value
        self.buffers_by_rows.setdefault(len(x), torch.empty_like(first)).copy_(first)
        return value


@torch.no_grad()
def left_by_calls(unit: Unit, part: nn.Module) -> int:
    inputs = [unit.rows(count) for count in CALLS]
    with Kept() as kept:
        for x in inputs:
            part(x)
    return kept.alive()


@pytest.mark.parametrize("name", [name for name, _ in SEEN])
def test_calls_of_many_heights_leave_no_scratch_behind(units: dict[str, Unit], name: str) -> None:
    unit = units[name]
    part = unit.bind()
    assert left_by_calls(unit, part) == 0
    width = unit.seat.dims["Nq" if "Nq" in unit.seat.dims else "D" if "D" in unit.seat.dims else "N"]
    assert left_by_calls(unit, BufferPerHeight(part)) == 4 * sum(CALLS) * width


DECLINED: list[Tensor] = []


def declines(seat: BindSeat) -> Refusal:
    """Pack a first form, find that it does not do, and forget to let go of it."""
    DECLINED.append(seat.weights["w"].half())
    return Refusal("bind", "envelope", "the first form does not serve this seat")


def left_by(bind: Callable[[BindSeat], object], seat: BindSeat) -> int:
    with torch.no_grad(), Kept() as kept:
        assert isinstance(bind(seat), Refusal)
    return kept.alive()


@pytest.mark.parametrize("name", [name for name, _ in SEEN])
def test_a_declined_form_gives_its_memory_back(units: dict[str, Unit], name: str) -> None:
    unit = units[name]
    last = [slot for slot in unit.seat.weights if slot.startswith("w")][-1]  # what lies before it is packed by then
    spoiled = replace(unit.seat, weights={**unit.seat.weights, last: unit.seat.weights[last] * torch.nan})
    assert left_by(lambda seat: unit.module.bind(seat, unit.scales, unit.kernel), spoiled) == 0


def test_a_declined_form_that_is_held_would_show(units: dict[str, Unit]) -> None:
    seat = units["linear_proj/torch_packed"].seat
    DECLINED.clear()
    assert left_by(declines, seat) == seat.weights["w"].numel() * 2
