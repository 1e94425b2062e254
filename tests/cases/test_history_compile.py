"""Bug history, compiling and exporting: whole graphs, out-buffers, stashes, grad modes, dead work, many equal runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_frt.contracts.structure import Join
from pytest_frt.errors import GuardRefused
from pytest_frt.seat import checks, guard, kernels, lifecycle, module, pair
from pytest_frt.seat.attachment import Attachment
from pytest_frt.seat.ledger import Admission
from pytest_frt.seat.swap import attach
from tests.impls.conftest import make_unit
from tests.seat.conftest import Host, Toy, rows

from .conftest import place

KINDS = ("ffn", "pack", "split")
LINEAR = place("linear_proj")
quiet = pytest.mark.filterwarnings(
    "ignore::pytest_frt.seat.guard.SeatWarning", "ignore:While compiling:UserWarning", "ignore:.*LeafSpec:FutureWarning"
)


@pytest.fixture
def toy() -> Toy:
    torch.manual_seed(0)
    torch.compiler.reset()
    model = Host().eval()
    return Toy(model, copy.deepcopy(model))


class Around(nn.Module):
    """A part with something done around it."""

    def __init__(self, part: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.part, self.change = part, change

    def forward(self, x: Tensor) -> Any:
        return self.part(self.change(x))


def attached(toy: Toy, change: Callable[[Tensor], Tensor], *, band: tuple[int, int] = (1, 8)) -> Attachment:
    (bound,) = toy.bind(("ffn", 0))
    return attach(toy.model, [replace(bound, rows=band, module=Around(bound.module, change))])


def same(x: Tensor) -> Tensor:
    return x


def op_looked_up_in_the_call(x: Tensor) -> Tensor:
    return import_module("torch._C").__dict__["_nn"].gelu(x) if kernels.resolve("pytest-frt/frt-cpu") else x


@quiet
@pytest.mark.parametrize(
    ("change", "whole"), [(same, True), (op_looked_up_in_the_call, False)], ids=["sound", "lookup"]
)
def test_op_that_is_looked_up_in_the_call_breaks_the_whole_graph(
    toy: Toy, change: Callable[[Tensor], Tensor], *, whole: bool
) -> None:
    with patch.object(lifecycle, "CHECKS", (checks.compiles_whole,)):
        _, check = lifecycle.run_battery(toy.model, lambda: attached(toy, change), lambda: toy.model(rows(4)))
    assert check.ok is whole, check.detail
    assert whole or "Unsupported" in check.detail


class OutBuffer(nn.Module):
    """Writes into one buffer of its own and hands that out."""

    def __init__(self, part: Callable[[Tensor], Tensor], like: Tensor) -> None:
        super().__init__()
        self.part = part
        self.register_buffer("out", torch.zeros_like(like))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out
        return out.copy_(self.part(x)) if x.shape[:-1] == out.shape[:-1] else self.part(x)


@torch.no_grad()
def exported(part: nn.Module, x: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(part, (x,)).run_decompositions()


@quiet
@torch.no_grad()
def test_shipped_part_exports_as_a_function() -> None:
    kernel = kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))
    unit = make_unit("qkv_pack/torch_int8", "w8a8_dynamic", kernel)
    part, x = unit.bind(), unit.rows(4)
    program = exported(part, x)
    assert program.graph_signature.buffers_to_mutate == {}
    torch.testing.assert_close(program.module()(2 * x), part(2 * x), rtol=0, atol=0)


@quiet
@torch.no_grad()
def test_part_with_an_out_buffer_is_refused_and_is_no_function() -> None:
    x = torch.ones(1, 63)
    planted = OutBuffer(LINEAR.sound(), LINEAR.sound()(x))
    assert set(exported(planted, x).graph_signature.buffers_to_mutate.values()) == {"out"}
    assert LINEAR.said(planted.forward) == "aliased_output"


def keeps_the_first(self: pair.Exchange, x: Tensor) -> Tensor:
    """Compute for the first input only, and stash that for every later one."""
    if not STASH:
        STASH.append(self.impl(x))
    outputs: list[Tensor | None] = list(STASH[0]) if isinstance(STASH[0], tuple) else [STASH[0]]
    first = outputs[0]
    assert first is not None
    if self.join is not Join.CHAIN:
        outputs[0] = None
    self.tickets[pair._thread()] = pair.Ticket(x, pair._version(x), outputs, pair._version(first))
    return first


STASH: list[Any] = []


@quiet
@torch.no_grad()
@pytest.mark.parametrize("stale", [False, True], ids=["as_it_is", "stash_of_the_first_call"])
def test_exported_pair_hands_on_what_belongs_to_its_input(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, *, stale: bool
) -> None:
    block = toy.model.blocks[0]
    with toy.attach("pack"):
        wanted = block(rows(4) + 1)
    if stale:
        STASH.clear()
        monkeypatch.setattr(pair.Exchange, "produce", keeps_the_first)
    toy.attach("pack")
    block(rows(4))
    program = torch.export.export(block, (rows(4),), strict=True)
    assert torch.allclose(program.module()(rows(4) + 1), wanted) is not stale


@quiet
@torch.no_grad()
def test_export_by_stand_in_tensors_holds_the_host_and_says_so(toy: Toy) -> None:
    attachment = toy.attach(*KINDS)
    program = torch.export.export(toy.model, (rows(4),))
    assert torch.equal(program.module()(rows(4) + 1), toy.twin(rows(4) + 1))
    assert [entry.reasons for entry in attachment.ledger.entries()] == [{"tensor kind": 1}] * 3
    attachment.detach()
    toy.attach("ffn", strict=True)
    with pytest.raises(GuardRefused, match="tensor kind"):
        torch.export.export(toy.model, (rows(4),))


def wobbles(x: Tensor) -> Tensor:
    return x + 1e-3 * torch.rand_like(x)


@torch.no_grad()
@pytest.mark.parametrize(("change", "answers"), [(same, 1), (wobbles, 5)], ids=["sound", "wobbling"])
def test_compiled_prefill_repeats_its_bits(toy: Toy, change: Callable[[Tensor], Tensor], answers: int) -> None:
    attached(toy, change, band=(1, 128))
    run = torch.compile(toy.model.blocks[0].mlp, fullgraph=True, backend="eager")
    found = {run(rows(65)).numpy().tobytes() for _ in range(5)}
    assert len(found) == answers


def wobbles_in_tall_slabs(x: Tensor) -> Tensor:
    y: Tensor = LINEAR.sound()(x)
    return y + 1e-6 * torch.rand_like(y) if x.shape[:-1].numel() > 64 else y


def test_sum_that_is_unordered_beyond_64_rows_is_refused_in_the_band_that_has_them() -> None:
    assert LINEAR.said(wobbles_in_tall_slabs) == ""
    assert LINEAR.said(wobbles_in_tall_slabs, band=(1, 128), rows=200) == "nondeterministic"
    assert LINEAR.said(LINEAR.sound(), band=(1, 128), rows=200) == ""


def ignores_gradients(self: guard.Guard, x: object, sides: tuple[object, ...] = ()) -> Admission:
    found = honest(self, x, sides)
    return Admission.SERVED if found is Admission.GRAD else found


honest = guard.Guard.examine


@pytest.mark.parametrize("ignored", [False, True], ids=["as_it_is", "grad_mode_ignored"])
def test_graph_warmed_in_grad_mode_does_not_serve_for_it(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, *, ignored: bool
) -> None:
    if ignored:
        monkeypatch.setattr(guard.Guard, "examine", ignores_gradients)
    attachment = toy.attach("ffn")
    run = torch.compile(toy.model.blocks[0].mlp, fullgraph=True, backend="eager")
    run(rows(4))
    with torch.no_grad():
        run(rows(4))
    (entry,) = attachment.ledger.entries()
    assert (entry.served, entry.fallbacks) == ((2, 0) if ignored else (1, 1))


class Matmuls(TorchDispatchMode):
    """Counts the matrix products that run."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return func(*args, **(kwargs or {}))


def runs_both(self: module.SeatModule, *args: Any, **kwargs: Any) -> Any:
    self._frt_host.forward(*args, **kwargs)
    return answers(self, *args, **kwargs)


answers = module.AnsweringSeat.forward


@torch.no_grad()
@pytest.mark.parametrize("dead", [False, True], ids=["as_it_is", "host_runs_too"])
@pytest.mark.parametrize(("kind", "products"), [("ffn", 2), ("pack", 3), ("split", 2)])
def test_served_call_runs_no_product_of_the_host(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, kind: str, products: int, *, dead: bool
) -> None:
    (bound,) = toy.bind((kind, 0))
    answer = toy.model.blocks[0].attention if kind == "pack" else None
    with Matmuls() as host:
        toy.model(rows(4))
    nothing = nn.Module()
    outputs = tuple(torch.zeros(4, 8) for _ in bound.outputs)
    nothing.forward = lambda _x: outputs if answer else outputs[0]
    if dead:
        monkeypatch.setattr(module.AnsweringSeat, "forward", runs_both)
    attach(toy.model, [replace(bound, module=nothing)])
    with Matmuls() as seated:
        toy.model(rows(4))
    assert (host.count - seated.count == products) is not dead
