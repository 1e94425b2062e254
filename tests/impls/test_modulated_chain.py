"""Impls of ``modnorm_qkv_chain`` hold both oracles in every variant; what is nearly right is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from .conditioned import Conditioned, D

CHAINS = Conditioned("modnorm_qkv_chain")
FULL = {"fanout": "qkv", "bias": "add"}

each_unit = pytest.mark.parametrize(("name", "scheme"), CHAINS.units, ids=str)


@each_unit
@pytest.mark.parametrize("variant", CHAINS.variants, ids=lambda one: "-".join(one.values()))
@torch.no_grad()
def test_impl_holds_both_oracles(name: str, scheme: str, variant: dict[str, str]) -> None:
    assert CHAINS.faults(CHAINS.bound(name, scheme, variant), scheme, variant, CHAINS.fed(variant)) == {}


def exchanged(tensor: Tensor) -> Tensor:
    """Exchange scale and shift."""
    return torch.cat(tensor.split(D, -1)[::-1], -1)


@each_unit
@pytest.mark.parametrize(
    ("slot", "change"),
    [
        ("w_cond", exchanged),
        ("b_cond", exchanged),
        ("b_cond", torch.zeros_like),
        ("w_q", lambda w: w * 1.01),
        ("w_k", lambda w: w.roll(1, 1)),
        ("b_v", torch.zeros_like),
    ],
    ids=["shift_for_scale", "bias_exchanged", "bias_dropped", "gain", "channels_moved", "sibling_without_bias"],
)
@torch.no_grad()
def test_sabotage_is_refused(name: str, scheme: str, slot: str, change: Callable[[Tensor], Tensor]) -> None:
    part = CHAINS.bound(name, scheme, FULL, **{slot: change(CHAINS.seat(scheme, FULL).weights[slot])})
    assert CHAINS.faults(part, scheme, FULL, {"rows": CHAINS.fed(FULL)["rows"]})


Outputs = tuple[Tensor, ...]
SWAPS: dict[str, Callable[[Outputs, Tensor], Outputs]] = {
    "norm_before_modulation": lambda found, x: (nn.functional.layer_norm(x, x.shape[-1:]), *found[1:]),
    "value_of_more_than_the_norm": lambda found, x: (*found[:3], found[3] + 0.1 * x.mean(-1, keepdim=True)),
}


@each_unit
@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
@torch.no_grad()
def test_wrong_outputs_are_refused(name: str, scheme: str, swap: Callable[[Outputs, Tensor], Outputs]) -> None:
    part = CHAINS.bound(name, scheme, FULL)
    rows = {"rows": CHAINS.fed(FULL)["rows"]}
    assert CHAINS.faults(lambda x, cond: swap(part(x, cond), x), scheme, FULL, rows)
