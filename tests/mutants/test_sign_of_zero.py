"""A zero without its sign is no mutant: it is the same number, sums do not agree on it, and no host can see it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.lab import hosting
from pytest_frt.seat.swap import attach
from tests.mutants.conduct import each
from tests.mutants.entry import Fault
from tests.mutants.judge import bench
from tests.mutants.places import host, host_ref
from tests.mutants.seats import SEATS

KINDS = ("decoder_ffn", "vision_ffn", "linear_proj", "linear_proj_biased", "qkv_pack")
"""A seat of every kind that discovery finds on the two hosts."""


def zeros(sign: float) -> Fault:
    return each("zeros", lambda y, _x: torch.full_like(y, sign * 0.0))


def every_third_zero(sign: float) -> Fault:
    def change(y: Tensor, _x: Tensor) -> Tensor:
        third = (torch.arange(y.numel()) % 3 == 0).view(y.shape)
        return torch.where(third, torch.full_like(y, sign * 0.0), y)

    return each("every_third_zero", change)


def tells_signs(_module: nn.Module, _args: object, output: Tensor) -> Tensor:
    """Stand for a host that looks at the sign of a seat's output."""
    return output + 0.01 * torch.copysign(torch.ones_like(output), output)


@torch.no_grad()
def scores(name: str, fault: Fault, *, looks: bool = False) -> list[Tensor]:
    """Return what the host gives with one seat that answers so."""
    at, spec = host(SEATS[name].host), SEATS[name]
    samples = hosting.split(at, host_ref(spec.host)).heldout[:2]
    with attach(at.model, [bench(name, "w8a8_dynamic", "tiny").bound(fault)]) as seated:
        places = spec.seat.places[-1:] if looks else ()
        hooks = [at.model.get_submodule(place).register_forward_hook(tells_signs) for place in places]
        out = at.program.score(at.model, samples, at.spec.phases[0].name)
        for hook in hooks:
            hook.remove()
        assert all(entry.served for entry in seated.ledger.entries())
    return out


def same_numbers(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("fault", [zeros, every_third_zero])
@pytest.mark.parametrize("name", KINDS)
def test_no_host_sees_the_sign_of_a_zero(name: str, fault: Callable[[float], Fault]) -> None:
    assert same_numbers(scores(name, fault(1.0)), scores(name, fault(-1.0)))


@pytest.mark.parametrize("name", KINDS)
def test_a_host_that_looked_at_signs_would_see_it(name: str) -> None:
    assert not same_numbers(scores(name, zeros(1.0), looks=True), scores(name, zeros(-1.0), looks=True))


def test_right_sums_disagree_on_it() -> None:
    x, w = torch.tensor([[-0.0, -0.0]]), torch.ones(2, 1)
    exact = x[0, 0] * w[0, 0] + x[0, 1] * w[1, 0]
    from_zero = torch.zeros(()).add(exact)
    assert torch.signbit(exact)
    assert not torch.signbit(from_zero)
    assert torch.equal(exact, from_zero)
