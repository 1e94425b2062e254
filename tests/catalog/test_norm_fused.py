"""``norm_fused``: the reference against the formula in numpy, its cases, and wrong norms at the shipped limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.cases.conftest import Forward, Place, cases_module, cases_of, place

WIDTH = 63
EPSILONS = [1e-12, 1e-6, 1e-3]
BAND = (1, 8)


def formula(x: Tensor, w: Tensor, b: Tensor, eps: float) -> Any:
    """Return the norm in float64, written out."""
    wide, scale, shift = (one.double().numpy() for one in (x, w, b))
    mean = wide.sum(-1, keepdims=True) / wide.shape[-1]
    variance = ((wide - mean) ** 2).sum(-1, keepdims=True) / wide.shape[-1]
    return (wide - mean) / np.sqrt(variance + eps) * scale + shift


@pytest.mark.parametrize("eps", EPSILONS)
def test_reference_is_the_formula_on_every_case(eps: float) -> None:
    at = place("norm_fused", eps=eps)
    weights = {name: value.double() for name, value in at.weights.items()}
    for name, x in cases_of(at, BAND).items():
        got = at.reference(x=x.double(), **weights, eps=eps)
        # The formula's own mean of equal numbers is off by 1e-16, which an epsilon of 1e-12 makes 1e-10.
        np.testing.assert_allclose(got.numpy(), formula(x, weights["w"], weights["b"], eps), atol=1e-8, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_short_floats_are_normalised_in_float32(dtype: torch.dtype) -> None:
    at = place("norm_fused")
    x = (torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1)) + 9).to(dtype)
    weights = {name: value.to(dtype) for name, value in at.weights.items()}
    wanted = at.reference(x=x.float(), **{name: value.float() for name, value in weights.items()})
    assert torch.equal(at.reference(x=x, **weights), wanted.to(dtype))


def test_rows_of_no_variance_give_the_shift() -> None:
    at = place("norm_fused", eps=1e-12)
    got = at.reference(x=cases_of(at, BAND)["zero_variance"], **at.weights, eps=1e-12)
    assert torch.equal(got, at.weights["b"].expand_as(got))


def test_scale_of_zero_gives_the_shift() -> None:
    at = place("norm_fused")
    weights = {**at.weights, "w": torch.zeros(WIDTH)}
    got = at.reference(x=torch.randn(4, WIDTH), **weights)
    assert torch.equal(got, weights["b"].expand_as(got))


def test_cases_are_what_their_names_say() -> None:
    found = cases_of(place("norm_fused"), BAND)
    assert found["far_from_zero"].mean() > 50 * found["far_from_zero"].std(-1).max()
    assert found["far_below_zero"].mean() < -50 * found["far_below_zero"].std(-1).max()
    spread = found["row_ramp_to_epsilon"].var(-1)
    assert spread[0] < 1e-14
    assert spread[-1] > 0.1
    assert [int(count) for count in (found["one_element_differs"] == 2).sum(-1)] == [1] * 5


def test_cases_fit_a_band_of_one_row() -> None:
    found = cases_of(place("norm_fused"), (1, 1))
    assert found["row_ramp_to_epsilon"].shape == found["far_from_zero"].shape == (1, WIDTH)


Wrong = Callable[[Place, Tensor], Tensor]


def torch_norm(at: Place, x: Tensor, **changed: Any) -> Tensor:
    """Return the norm by torch in the dtype of ``x``, with vectors or epsilon changed."""
    kept = {"w": at.weights["w"], "b": at.weights["b"], "eps": at.facts.constants["eps"], **changed}
    return F.layer_norm(x, (WIDTH,), kept["w"], kept["b"], kept["eps"])


def root_mean_square(at: Place, x: Tensor) -> Tensor:
    return F.rms_norm(x, (WIDTH,), at.weights["w"], at.facts.constants["eps"]) + at.weights["b"]


def from_zero(x: Tensor) -> Tensor:
    """Return the rows less their mean, exactly: what is wrong with a mutant is the next step alone."""
    return x.double() - x.double().mean(-1, keepdim=True)


def by_scale(scale: Callable[[Tensor, float], Tensor]) -> Wrong:
    """Return a norm that multiplies the rows less their mean by a factor ``[..., 1]`` of its own."""

    def wrong(at: Place, x: Tensor) -> Tensor:
        factor = scale(x.contiguous(), at.facts.constants["eps"])
        return (from_zero(x) * factor * at.weights["w"] + at.weights["b"]).to(x.dtype)

    return wrong


def mean_square(x: Tensor) -> Tensor:
    return x.square().mean(-1, keepdim=True)


MUTANTS: dict[str, Wrong] = {
    "root_mean_square": root_mean_square,
    "no_epsilon": lambda at, x: torch_norm(at, x, eps=0.0),
    "epsilon_of_another_host": lambda at, x: torch_norm(at, x, eps=1e-5),
    "epsilon_beside_the_root": by_scale(lambda x, eps: 1 / (mean_square(from_zero(x)).sqrt() + eps)),
    "sample_variance": by_scale(lambda x, eps: (mean_square(from_zero(x)) * WIDTH / (WIDTH - 1) + eps).rsqrt()),
    "mean_square_less_squared_mean": by_scale(
        lambda x, eps: (mean_square(x) - x.mean(-1, keepdim=True).square() + eps).rsqrt()
    ),
    "shift_left_out": lambda at, x: torch_norm(at, x, b=None),
    "scale_left_out": lambda at, x: torch_norm(at, x, w=None),
    "scale_plus_one": lambda at, x: torch_norm(at, x, w=1 + at.weights["w"]),
    "scale_and_shift_exchanged": lambda at, x: torch_norm(at, x, w=at.weights["b"], b=at.weights["w"]),
    "moments_in_bfloat16": lambda at, x: torch_norm(at, x.bfloat16().float()),
    "variance_of_the_whole_call": by_scale(lambda x, eps: (from_zero(x).square().mean() + eps).rsqrt()),
}


@pytest.mark.parametrize("eps", EPSILONS)
def test_torch_itself_holds_at_every_epsilon(eps: float) -> None:
    at = place("norm_fused", eps=eps)
    assert at.said(lambda x: torch_norm(at, x)) == ""


@pytest.mark.parametrize("eps", [1e-12, 1e-6])
@pytest.mark.parametrize("wrong", MUTANTS.values(), ids=MUTANTS)
def test_wrong_norm_is_refused_at_the_shipped_limits(wrong: Wrong, eps: float) -> None:
    at = place("norm_fused", eps=eps)
    planted: Forward = lambda x: wrong(at, x)  # noqa: E731 (one line reads best)
    assert at.said(planted) in {"reference", "zeros", "nan"}


def test_near_misses_change_the_reference_and_nothing_else() -> None:
    at = place("norm_fused")
    x, plain = torch.randn(4, WIDTH), at.sound()
    for miss in cases_module(at).near_misses(at.facts.variant):
        changed = {slot: take(at.weights[slot]) for slot, take in miss.slots.items()}
        assert not torch.equal(at.sound(**changed)(x), plain(x)), miss.name


def test_near_miss_of_the_sample_variance_is_one() -> None:
    at = place("norm_fused", eps=1e-12)
    (miss,) = [one for one in cases_module(at).near_misses(at.facts.variant) if one.name == "sample_variance"]
    x = torch.randn(4, WIDTH)
    changed = at.sound(w=miss.slots["w"](at.weights["w"]))(x)
    torch.testing.assert_close(changed, MUTANTS["sample_variance"](at, x))
