"""Impls of ``adaln_producer`` hold both oracles; a table has the host's bits, and none for another condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from .conditioned import C, Conditioned, D

NORMS = Conditioned("adaln_producer")
VARIANTS = NORMS.variants
TABLE_ROWS = 64

each_unit = pytest.mark.parametrize(("name", "scheme"), NORMS.units, ids=str)
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: "-".join(one.values()))


def projected(part: nn.Module, cond: Tensor) -> Tensor:
    """Return what the projection of a bound part makes of a condition."""
    return cast("Tensor", cast("nn.Module", part.project)(cond))


@each_unit
@each_variant
@torch.no_grad()
def test_impl_holds_both_oracles(name: str, scheme: str, variant: dict[str, str]) -> None:
    assert NORMS.faults(NORMS.bound(name, scheme, variant), scheme, variant, NORMS.fed(variant)) == {}


def exchanged(tensor: Tensor) -> Tensor:
    """Exchange the first two pieces of D along the last axis."""
    scale, shift, *gate = tensor.split(D, -1)
    return torch.cat((shift, scale, *gate), -1)


@each_unit
@pytest.mark.parametrize(
    ("slot", "change"),
    [("w_style", exchanged), ("b_style", exchanged), ("b_style", torch.zeros_like), ("w_style", lambda w: w * 1.01)],
    ids=["shift_for_scale", "bias_exchanged", "bias_dropped", "gain"],
)
@torch.no_grad()
def test_sabotage_is_refused(name: str, scheme: str, slot: str, change: Callable[[Tensor], Tensor]) -> None:
    variant = VARIANTS[0]
    part = NORMS.bound(name, scheme, variant, **{slot: change(NORMS.seat(scheme, variant).weights[slot])})
    assert NORMS.faults(part, scheme, variant, {"rows": NORMS.fed(variant)["rows"]})


def stale(part: nn.Module) -> Callable[..., object]:
    """Return a part that keeps the first condition's style: the fault a table must not have."""
    first: list[Tensor] = []

    def run(x: Tensor, cond: Tensor) -> object:
        first.append(cond)
        return part(x, first[0])

    return run


@each_unit
@torch.no_grad()
def test_style_of_another_condition_is_refused(name: str, scheme: str) -> None:
    variant = VARIANTS[0]
    found = NORMS.faults(stale(NORMS.bound(name, scheme, variant)), scheme, variant, NORMS.fed(variant))
    assert {"cond_zero#0", "cond_outlier#1"} <= set(found)


@torch.no_grad()
def test_table_gives_the_bits_of_a_plain_projection_however_full_it_is() -> None:
    part = NORMS.bound("adaln_producer/torch_table", "none", VARIANTS[0])
    weights = NORMS.seat("none", VARIANTS[0]).weights
    for turn in range(2 * TABLE_ROWS):
        cond = torch.randn(1, C, generator=torch.Generator().manual_seed(turn % (TABLE_ROWS + 9)))
        wanted = torch.nn.functional.linear(cond, weights["w_style"].T.contiguous(), weights["b_style"])
        assert torch.equal(projected(part, cond), wanted), turn


@torch.no_grad()
def test_writing_into_an_answer_does_not_reach_the_table() -> None:
    part = NORMS.bound("adaln_producer/torch_table", "none", VARIANTS[0])
    x, cond = torch.ones(10, D), torch.ones(1, C)
    y, gate = part(x, cond)
    kept = gate.clone()
    gate.zero_()
    y.zero_()
    assert torch.equal(part(x, cond)[1], kept)
