"""Seam metrics: every shipped scheme's limits refuse every mutant, each number bites alone, edges stay finite."""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module

import pytest
import torch
from torch import Tensor

import pytest_frt.schemes
from pytest_frt.contracts.evidence import SeamMetrics
from pytest_frt.contracts.scheme import Scheme, SeamLimits
from pytest_frt.measure import blocks
from pytest_frt.measure.metrics import seam_metrics
from pytest_frt.rules import seam

NAMES = [found.name for found in pkgutil.iter_modules(pytest_frt.schemes.__path__) if not found.name.startswith("_")]
SCHEMES: list[Scheme] = [import_module(f"pytest_frt.schemes.{name}").SCHEME for name in NAMES]
ROWS, WIDE, OUT = 16, 96, 128
Mutant = Callable[[Tensor, Tensor], Tensor]


def seat(weight: Tensor, x: Tensor) -> Tensor:
    """A biased projection: ``x[M, K] @ w[K, N] + b[N]`` with distinct, non-unit parameters."""
    return x @ weight + torch.linspace(-1.5, 2.0, OUT, dtype=weight.dtype)


def drawn(scheme: Scheme) -> tuple[Tensor, Tensor, Tensor]:
    """Return reference, fake-quantised reference (float64) and the output of an earlier observation."""
    generator = torch.Generator().manual_seed(7)
    weight = torch.randn(WIDE, OUT, generator=generator) / math.sqrt(WIDE)
    x, before = (torch.randn(ROWS, WIDE, generator=generator, dtype=torch.float64) for _ in range(2))
    fake = scheme.weight(weight, 1).double()
    return seat(weight.double(), x), seat(fake, x), seat(fake, before)


def swapped_rows(out: Tensor, before: Tensor) -> Tensor:  # noqa: ARG001
    return out.flip(0)


def stale_prefix(out: Tensor, before: Tensor) -> Tensor:
    return torch.cat((before[:4], out[4:]))


def one_nan(out: Tensor, before: Tensor) -> Tensor:  # noqa: ARG001
    out = out.clone()
    out[3, 5] = math.nan
    return out


def one_inf(out: Tensor, before: Tensor) -> Tensor:  # noqa: ARG001
    out = out.clone()
    out[-1, -1] = math.inf
    return out


def one_wrong_row(out: Tensor, before: Tensor) -> Tensor:
    return torch.cat((out[:-1], before[-1:]))


MUTANTS: dict[str, tuple[Mutant, set[str]]] = {
    "gain_1_percent": (lambda out, _: out * 1.01, {"gain"}),
    "half_scale": (lambda out, _: out * 0.5, {"gain"}),
    "sign_flip": (lambda out, _: -out, {"gain"}),
    "zeros": (lambda out, _: torch.zeros_like(out), {"zeros"}),
    "nearly_zeros": (lambda out, _: out * 1e-3, {"zeros"}),
    "dropped_bias": (lambda out, _: out - torch.linspace(-1.5, 2.0, OUT), {"reference"}),
    "swapped_rows": (swapped_rows, {"reference"}),
    "stale_prefix": (stale_prefix, {"reference"}),
    "one_wrong_row": (one_wrong_row, {"reference"}),
    "one_nan": (one_nan, {"nan"}),
    "one_inf": (one_inf, {"nan"}),
    "wrong_width": (lambda out, _: out[:, :-1], {"shape"}),
    "missing_row": (lambda out, _: out[:-1], {"shape"}),
}


def measured(candidate: Tensor, reference: Tensor, fake: Tensor, limits: SeamLimits) -> SeamMetrics:
    return seam_metrics(candidate, reference, fake, seat="s", case="real", output=0, limits=limits)


@pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)
def test_the_scheme_itself_holds(scheme: Scheme) -> None:
    reference, fake, _ = drawn(scheme)
    assert seam.fault(measured(fake.float(), reference, fake, scheme.limits), scheme.limits) == ""


@pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)
@pytest.mark.parametrize(("mutant", "words"), MUTANTS.values(), ids=MUTANTS)
def test_mutant_is_refused_at_the_shipped_limits(scheme: Scheme, mutant: Mutant, words: set[str]) -> None:
    reference, fake, before = drawn(scheme)
    spoiled = mutant(fake.float(), before.float())
    assert seam.fault(measured(spoiled, reference, fake, scheme.limits), scheme.limits) in words


def numbers(result: SeamMetrics) -> dict[str, float]:
    """Return the numeric fields."""
    return {name: value for name, value in asdict(result).items() if not isinstance(value, str)}


def noise(out: Tensor, share: float) -> Tensor:
    """Return errors orthogonal to nothing in particular, of relative L2 ``share``."""
    drawn_noise = torch.randn(out.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return drawn_noise * (share * out.norm() / drawn_noise.norm())


def in_one_row(out: Tensor) -> Tensor:
    spoiled = out.clone()
    spoiled[2] += noise(out[2], 0.05)
    return spoiled


def in_one_element(out: Tensor) -> Tensor:
    spoiled = out.clone()
    spoiled[1, 1] += 0.06 * out.square().mean().sqrt()
    return spoiled


LOOSE = SeamLimits(2.0, 0.02, 0.002, 0.02, 0.04, 0.05, 0.0, "wide enough that each number can fail alone")
ALONE: dict[str, tuple[Callable[[Tensor], Tensor], SeamLimits, tuple[str, ...]]] = {
    "slope": (lambda out: out * 1.003, LOOSE, ("slope",)),
    "reference_ratio": (
        lambda out: out + noise(out, 0.01),
        SeamLimits(2.0, 0.005, 0.002, 0.02, 0.04, 0.05, 0.0, "tight floor"),
        ("reference_ratio",),
    ),
    "rel_l2": (
        lambda out: out + noise(out, 0.01),
        SeamLimits(2.0, 0.02, 0.002, 0.008, 0.04, 0.05, 0.0, "tight rel_l2"),
        ("rel_l2",),
    ),
    "row_rel_l2": (in_one_row, SeamLimits(2.0, 0.02, 0.002, 0.02, 0.04, 0.3, 0.0, "tight rows"), ("row_rel_l2",)),
    "max_abs": (in_one_element, LOOSE, ("max_abs", "outliers")),
    "outliers": (
        lambda out: out + noise(out, 0.01),
        SeamLimits(2.0, 0.02, 0.002, 0.02, 0.04, 0.02, 0.001, "tight budget"),
        ("outliers",),
    ),
}


@pytest.mark.parametrize(("spoil", "limits", "over"), ALONE.values(), ids=ALONE)
def test_each_number_bites_alone(spoil: Callable[[Tensor], Tensor], limits: SeamLimits, over: tuple[str, ...]) -> None:
    reference = drawn(SCHEMES[0])[0]
    result = measured(spoil(reference), reference, reference, limits)
    assert set(seam.breaches(result, limits)) == set(over)
    assert seam.breaches(measured(reference, reference, reference, limits), limits) == ()


def test_numbers_are_what_they_say() -> None:
    reference = torch.tensor([[3.0, 4.0], [0.0, 5.0]], dtype=torch.float64)
    fake = reference + torch.tensor([[0.1, 0.0], [0.0, 0.0]], dtype=torch.float64)
    candidate = fake + torch.tensor([[0.0, 0.0], [0.0, 0.5]], dtype=torch.float64)
    result = measured(candidate, reference, fake, LOOSE)
    energy = float(fake.square().sum())
    assert result.candidate_error == pytest.approx(math.sqrt(0.26 / 50))
    assert result.scheme_error == pytest.approx(0.1 / math.sqrt(50))
    assert result.slope == pytest.approx(float((candidate * fake).sum()) / energy)
    assert result.rel_l2 == pytest.approx(0.5 / math.sqrt(energy))
    assert result.row_rel_l2 == pytest.approx(0.1)
    assert result.max_abs == pytest.approx(0.5 / math.sqrt(energy / 4))
    assert result.outliers == 0.25
    assert (result.rows, result.elements) == (2, 4)


def test_a_small_row_is_judged_against_the_mean_row() -> None:
    reference = torch.ones(4, 8, dtype=torch.float64)
    reference[0] = 1e-9
    candidate = reference.clone()
    candidate[0, 0] += 1e-6
    assert measured(candidate, reference, reference, LOOSE).row_rel_l2 < 1e-6


ZERO = torch.zeros(3, 8, dtype=torch.float64)


def test_zero_reference_and_zero_candidate_agree() -> None:
    result = measured(ZERO.float(), ZERO, ZERO, LOOSE)
    assert (result.rel_l2, result.slope, result.cosine, result.max_abs) == (0.0, 1.0, 1.0, 0.0)
    assert seam.fault(result, LOOSE) == ""


def test_anything_on_a_zero_reference_is_a_total_error() -> None:
    candidate = ZERO.clone()
    candidate[1, 1] = 1e-6
    result = measured(candidate, ZERO, ZERO, LOOSE)
    assert (result.rel_l2, result.candidate_error, result.row_rel_l2) == (1.0, 1.0, 1.0)
    assert seam.fault(result, LOOSE) == "reference"


@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8)], ids=["no_rows", "no_rows_in_a_batch"])
def test_no_rows_is_no_error(shape: tuple[int, ...]) -> None:
    empty = torch.zeros(shape, dtype=torch.float64)
    result = measured(empty.float(), empty, empty, LOOSE)
    assert (result.rows, result.elements, result.rel_l2, result.finite) == (0, 0, 0.0, True)
    assert seam.fault(result, LOOSE) == ""


def test_no_rows_against_rows_is_a_shape() -> None:
    assert measured(ZERO[:0], ZERO, ZERO, LOOSE).mismatch == "(0, 8) for reference (3, 8)"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_of_a_broken_candidate_stay_finite(value: float) -> None:
    reference = drawn(SCHEMES[0])[0]
    result = measured(torch.full_like(reference, value), reference, reference, LOOSE)
    assert not result.finite
    assert all(map(math.isfinite, numbers(result).values()))


def test_a_reference_without_a_finite_element_passes_nothing() -> None:
    broken = torch.full((2, 4), math.nan, dtype=torch.float64)
    assert seam.fault(measured(torch.ones(2, 4), broken, broken, LOOSE), LOOSE) == "nan"


def test_where_the_reference_overflows_the_candidate_is_not_judged() -> None:
    reference = drawn(SCHEMES[0])[0].clone()
    candidate = reference.clone()
    reference[0, 0] = candidate[0, 0] = math.inf
    result = measured(candidate, reference, reference, LOOSE)
    assert result.finite
    assert result.elements == reference.numel() - 1


@pytest.mark.parametrize("block", [1, OUT, 3 * OUT + 1], ids=["less_than_a_row", "one_row", "three_rows"])
def test_blocks_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    reference, fake, before = drawn(SCHEMES[-1])
    candidate = one_wrong_row(fake.float(), before.float())
    whole = measured(candidate, reference, fake, LOOSE)
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", block)
    assert numbers(measured(candidate, reference, fake, LOOSE)) == pytest.approx(numbers(whole), rel=1e-12)


def test_leading_axes_and_strides_are_free() -> None:
    reference, fake, _ = drawn(SCHEMES[0])
    flat = measured(fake, reference, fake, LOOSE)
    folded = [tensor.t().contiguous().t().reshape(2, 8, OUT) for tensor in (fake, reference, fake)]
    assert numbers(measured(folded[0], folded[1], folded[2], LOOSE)) == pytest.approx(numbers(flat), rel=1e-12)
