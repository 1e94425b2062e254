"""Schemes of bfloat16 boundaries: weight scales that move no rounding, products that the oracle rounds as parts do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.scheme import Scheme
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts, SlotRef
from pytest_frt.lab.oracle import SeatOracle
from pytest_frt.registry import Registry
from pytest_frt.schemes import fp8_static, fp8_static_bf16, w8a16_decode, w8a16_decode_bf16

STRUCTURE = Registry.load().structures["linear_proj"].spec


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("largest", "scale"),
    [(448.0, 1.0), (449.0, 2.0), (224.0, 0.5), (225.0, 1.0), (1e-45, 2.0**-126), (3e38, 2.0**120)],
    ids=["full", "over", "half", "over_half", "least", "huge"],
)
def test_scale_is_the_least_power_of_two(largest: float, scale: float) -> None:
    w = f64(largest, largest / 3)
    codes = (w.float() / scale).to(torch.float8_e4m3fn).double()
    assert fp8_static_bf16.weight(w, 0).tolist() == (codes * scale).tolist()


def test_zeros_stay_zeros() -> None:
    assert not fp8_static_bf16.weight(torch.zeros(3, 3), 0).any()


def test_slots_merged_under_the_larger_scale_keep_their_codes() -> None:
    small = torch.randn(64, 64, dtype=torch.float64)
    merged = fp8_static_bf16.weight(torch.cat((small, 3 * small)), 0)[:64]
    codes = small.abs() > small.abs().max() / 448 * 2.0**-4  # the others are subnormal under a larger scale
    assert torch.equal(merged[codes], fp8_static_bf16.weight(small, 0)[codes])
    apart = fp8_static.weight(torch.cat((small, 3 * small)), 0)[:64]
    assert not torch.equal(apart[codes], fp8_static.weight(small, 0)[codes])


def test_activations_are_those_of_the_schemes_of_float32_boundaries() -> None:
    x = 300 * torch.randn(64, dtype=torch.float64)
    assert torch.equal(fp8_static_bf16.SCHEME.activation(x, 0.7), fp8_static.SCHEME.activation(x, 0.7))
    assert torch.equal(w8a16_decode_bf16.SCHEME.activation(x, None), w8a16_decode.SCHEME.activation(x, None))


class Host(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.proj = nn.Linear(64, 32, bias=False, dtype=dtype)
        with torch.no_grad():
            self.proj.weight.copy_(torch.randn(32, 64, generator=torch.Generator().manual_seed(1)))


def oracle(scheme: Scheme, host: nn.Module) -> SeatOracle:
    slots = {"w": SlotRef("proj.weight", transpose=True)}
    facts = SeatFacts(
        "linear_proj", ModuleSeat("proj"), {"bias": "none"}, {"K": 64, "N": 32}, slots, {}, "bfloat16", {}
    )
    return SeatOracle(host, facts, STRUCTURE, scheme, Scales({"x": 0.01}))


@pytest.mark.parametrize("scheme", [fp8_static_bf16.SCHEME, w8a16_decode_bf16.SCHEME], ids=lambda one: one.name)
def test_oracle_rounds_what_the_scheme_says_leaves_rounded(scheme: Scheme) -> None:
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    (rounded,) = oracle(scheme, Host(torch.bfloat16)).fake_quantised([x])[0]
    assert torch.equal(rounded, rounded.bfloat16().double())


@pytest.mark.parametrize("scheme", [fp8_static.SCHEME, w8a16_decode.SCHEME], ids=lambda one: one.name)
def test_oracle_of_other_schemes_leaves_sums(scheme: Scheme) -> None:
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(2)).bfloat16()
    (left,) = oracle(scheme, Host(torch.float32)).fake_quantised([x])[0]
    assert not torch.equal(left, left.bfloat16().double())


def test_oracle_keeps_codes_of_a_host_in_sixteen_bits() -> None:
    """Codes times scales have more digits than bfloat16: rounded to the host's dtype they are another weight."""
    host = Host(torch.bfloat16)
    eye = torch.eye(64, dtype=torch.bfloat16)
    (seen,) = oracle(w8a16_decode.SCHEME, host).fake_quantised([eye])[0]
    weight = host.proj.weight.detach().double()
    assert torch.equal(seen.T, w8a16_decode.weight(weight, 0))
    assert not torch.equal(seen, seen.bfloat16().double())
