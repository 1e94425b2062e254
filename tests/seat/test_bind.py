"""Binding refuses a seat outside the envelope with the numbers, before the impl sees a tensor."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from pytest_frt.contracts.impl import BindSeat, Impl, Scales
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, RoutedSeat, SeatFacts
from pytest_frt.contracts.structure import Structure, TensorSpec
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.errors import SpecError, SwapRefused
from pytest_frt.seat.bind import BoundSeat, bind_unit

if TYPE_CHECKING:
    from tests.seat.conftest import Toy

DECLARED = Impl(
    name="toy",
    structure="ffn",
    version=1,
    schemes=("static",),
    kernel="toy/kernel",
    rows={"static": (1, 8)},
    variants={"activation": ("silu",)},
    dims={"D": (4, 16)},
    multiples={"F": 4},
    points={"static": ("x",)},
)
ENVELOPE: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "structure": ({"structure": "other"}, {}, "structure", "implements other"),
    "scheme": ({"schemes": ("none",)}, {}, "scheme", "runs none, not static"),
    "dtype": ({"dtypes": ("bfloat16",)}, {}, "dtype", "boundary is float32"),
    "variant": ({"variants": {"activation": ("gelu",)}}, {}, "variant", "activation is silu"),
    "too_narrow": ({"dims": {"D": (16, 32)}}, {}, "envelope", "D=8, toy takes 16 to 32"),
    "too_wide": ({"dims": {"F": (1, 11)}}, {}, "envelope", "F=12, toy takes 1 to 11"),
    "multiple": ({"multiples": {"F": 5}}, {}, "envelope", "F=12 is no multiple of 5"),
    "rows": ({}, {"rows": (1, 9)}, "rows", "1 to 9 are asked for, toy takes 1 to 8"),
    "no_rows": ({"rows": {}}, {}, "rows", "takes 0 to -1"),
    "no_scale": ({}, {"scales": {}}, "scale", "no scale for point x; given are none"),
    "other_scale": ({}, {"scales": {"y": 1.0}}, "scale", "given are y"),
    "scale_nan": ({}, {"scales": {"x": float("nan")}}, "scale", "scale of point x is nan"),
    "scale_zero": ({}, {"scales": {"x": 0.0}}, "scale", "needs a positive finite number"),
    "device": ({"devices": ("cuda",)}, {}, "device", "tensors are on cpu, toy runs on cuda"),
}


def module(answer: object, declared: Impl = DECLARED) -> ModuleType:
    impl = ModuleType("impl")
    impl.IMPL = declared  # type: ignore[attr-defined]
    impl.bind = answer if callable(answer) and not isinstance(answer, nn.Module) else lambda *_: answer  # type: ignore[attr-defined]
    return impl


@pytest.fixture
def facts(toy: Toy) -> SeatFacts:
    (bound,) = toy.bind(("ffn", 0))
    return replace(bound.facts, variant={"activation": "silu"})


def bind(
    toy: Toy,
    facts: SeatFacts,
    impl: ModuleType,
    *,
    rows: tuple[int, int] = (1, 8),
    scales: dict[str, float] | None = None,
    outputs: int = 1,
) -> tuple[tuple[BoundSeat, ...], tuple[Refusal, ...]]:
    tensors = tuple(TensorSpec(f"y{index}", ("M", "D")) for index in range(outputs))
    structure = Structure("ffn", 1, "", (TensorSpec("x", ("M", "D")),), tensors, (), {}, (), (), (), "", "", "")
    given = {facts.id: Scales({"x": 0.5} if scales is None else scales)}
    return bind_unit(
        toy.model,
        [facts],
        structure=structure,
        impl=impl,
        scheme="static",
        scales=given,
        kernel=ModuleType("kernel"),
        rows=rows,
    )


@pytest.mark.parametrize("fault", ENVELOPE)
def test_outside_the_envelope_is_refused_with_the_numbers(toy: Toy, facts: SeatFacts, fault: str) -> None:
    declared, asked, reason, words = ENVELOPE[fault]
    called: list[BindSeat] = []
    bound, (refusal,) = bind(toy, facts, module(called.append, replace(DECLARED, **declared)), **asked)
    assert (bound, called, refusal.gate, refusal.reason, refusal.at) == ((), [], "bind", reason, facts.id)
    assert words in refusal.detail


@pytest.mark.parametrize(
    ("fault", "measured", "required"), [("too_narrow", 8, 16), ("too_wide", 12, 11), ("multiple", 2, 0)]
)
def test_size_refusals_carry_number_and_limit(
    toy: Toy, facts: SeatFacts, fault: str, measured: int, required: int
) -> None:
    _, (refusal,) = bind(toy, facts, module(nn.Identity(), replace(DECLARED, **ENVELOPE[fault][0])))
    (number,) = refusal.measured
    assert (number.value, number.required) == (measured, required)


def test_inside_the_envelope_is_bound_in_evaluation_mode_without_gradients(toy: Toy, facts: SeatFacts) -> None:
    seen: list[bool] = []

    def answer(seat: BindSeat, scales: Scales, _kernel: ModuleType) -> nn.Module:
        seen.append(torch.is_grad_enabled())
        assert seat.weights["w_up"].shape == (8, 12)
        assert (scales.by_point, seat.rows, seat.variant) == ({"x": 0.5}, (1, 8), {"activation": "silu"})
        return nn.Linear(8, 8)

    ((bound,), refused) = bind(toy, facts, module(answer))
    assert (refused, seen, bound.width, bound.outputs, bound.impl) == ((), [False], 8, (8,), "toy")
    assert not bound.module.training
    assert not any(one.requires_grad for one in bound.module.parameters())
    assert toy.is_twin()


def test_refusal_of_the_impl_is_passed_on_with_its_place(toy: Toy, facts: SeatFacts) -> None:
    bound, (refusal,) = bind(toy, facts, module(Refusal("bind", "smoke", "not finite")))
    assert (bound, refusal.reason, refusal.at) == ((), "smoke", facts.id)


def test_bind_that_writes_to_the_host_is_an_error(toy: Toy, facts: SeatFacts) -> None:
    def answer(seat: BindSeat, _scales: Scales, _kernel: ModuleType) -> nn.Module:
        seat.weights["w_down"].mul_(2)
        return nn.Identity()

    with pytest.raises(SwapRefused, match=r"bind of toy wrote to w_down of seat blocks\.0\.mlp"):
        bind(toy, facts, module(answer))


def test_bind_that_returns_neither_module_nor_refusal_is_an_error(toy: Toy, facts: SeatFacts) -> None:
    with pytest.raises(SpecError, match=r"returned int for seat blocks\.0\.mlp"):
        bind(toy, facts, module(3))


def test_bug_in_bind_is_not_a_refusal(toy: Toy, facts: SeatFacts) -> None:
    def answer(*_: object) -> nn.Module:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bind(toy, facts, module(answer))


@pytest.mark.parametrize(
    ("seat", "outputs", "reason"),
    [
        (RoutedSeat("blocks.0.mlp", "act"), 1, "routed"),
        (PairSeat("blocks.0.first", ("blocks.0.second",)), 3, "places"),
    ],
    ids=["routed", "pair_of_three"],
)
def test_places_that_do_not_fit_the_outputs_are_refused(
    toy: Toy, facts: SeatFacts, seat: ModuleSeat, outputs: int, reason: str
) -> None:
    _, (refusal,) = bind(toy, replace(facts, seat=seat), module(nn.Identity()), outputs=outputs, scales={"x": 1.0})
    assert refusal.reason == reason


def test_one_module_may_return_several_tensors(toy: Toy, facts: SeatFacts) -> None:
    ((bound,), refused) = bind(toy, facts, module(nn.Identity()), outputs=3, scales={"x": 1.0})
    assert (refused, bound.outputs, bound.shapes(torch.ones(2, 8))) == ((), (8, 8, 8), [(2, 8)] * 3)


def test_fanout_that_returns_too_few_tensors_raises(toy: Toy, x: torch.Tensor) -> None:
    from pytest_frt.errors import GuardRefused
    from pytest_frt.seat.swap import attach

    (bound,) = toy.bind(("pack", 0))
    bound.module.run = lambda x: (x, x)
    attach(toy.model, [bound])
    with torch.no_grad(), pytest.raises(GuardRefused, match="returned 2 tensors, the seat takes 3"):
        toy.model(x)
