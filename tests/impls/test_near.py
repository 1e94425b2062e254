"""Shipped impls lie at their references and not at near misses, and no channel of theirs is off, in every scheme."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.lab.near import pooled
from pytest_frt.lab.oracle import Answer, SeatOracle, calls_of
from pytest_frt.registry import load_module
from pytest_frt.rules import pooled as rule

from .conftest import REGISTRY, UNITS, Unit, make_unit, outputs

CALLS = 8
WITH_GELU = [one for one in UNITS if one[0].startswith(("decoder_ffn", "vision_ffn"))]


def held(weights: dict[str, Tensor]) -> nn.Module:
    host = nn.Module()
    for name, tensor in weights.items():
        host.register_buffer(name, tensor)
    return host


@torch.no_grad()
def judged(unit: Unit, part: nn.Module) -> list[PooledMetrics]:
    """Compare a part over eight calls of rows that reach where the two shapes of GELU differ."""
    entry, seat = REGISTRY.structures[unit.entry.impl.structure], unit.seat
    slots = {name: SlotRef(name) for name in seat.weights}
    facts = SeatFacts(seat.structure, ModuleSeat("seat"), seat.variant, seat.dims, slots, seat.constants, "float32", {})
    oracle = SeatOracle(held(dict(seat.weights)), facts, entry.spec, unit.scheme, unit.scales)
    calls = list((2 * unit.rows(CALLS * 8)).split(8))
    got = [torch.cat(column) for column in zip(*(outputs(part(x)) for x in calls), strict=True)]
    answers = [Answer("real", tuple(got), calls)]
    cases = load_module(Path(entry.folder) / "cases.py")
    return list(pooled(oracle, cases, facts, answers, oracle.fake_quantised(calls_of(answers))))


def test_an_impl_lies_at_its_reference(unit: Unit) -> None:
    for found in judged(unit, unit.bind()):
        assert rule.breaches(found, unit.scheme.limits) == ()
        assert rule.untold(found) == ()
        assert rule.numbers(found)["alternative"] < 0.05
        assert found.rows == CALLS * 8


@pytest.mark.parametrize(("name", "scheme"), WITH_GELU, ids=map("-".join, WITH_GELU))
def test_an_impl_with_the_other_gelu_lies_at_the_near_miss(kernel: ModuleType, name: str, scheme: str) -> None:
    unit = make_unit(name, scheme, kernel)
    part = unit.bind()
    if not hasattr(part, "_act"):
        pytest.skip("its activation is part of the kernel")
    exact = "none" if unit.seat.variant["activation"] == "gelu_tanh" else "tanh"
    part._act = lambda gate: F.gelu(gate, approximate=exact)  # type: ignore[assignment]
    (found,) = judged(unit, part)
    assert rule.breaches(found, unit.scheme.limits) == ("alternative",)
    assert rule.numbers(found)["alternative"] == pytest.approx(1.0, abs=0.05)


def test_one_channel_off_is_the_channel_named(unit: Unit) -> None:
    part = unit.bind()

    class Off(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            first, *others = (one.clone() for one in outputs(part(x)))
            first[..., 5] *= 1.05
            return first, *others

    found = judged(unit, Off())[0]
    assert "channel" in rule.breaches(found, unit.scheme.limits)
    assert rule.worst_channel(found).index == 5
