"""Host metrics: right numbers, and every mutant falls out of the shipped bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.evidence import HostMetrics
from pytest_frt.contracts.verdict import Pass, Refusal
from pytest_frt.errors import EvidenceError, SpecError
from pytest_frt.measure import blocks
from pytest_frt.measure.metrics import host_metrics
from pytest_frt.rules.bands import judge_samples

POSITIONS, VOCABULARY = 16, 64


def logits(seed: int) -> Tensor:
    """Return ``[P, V]`` logits with a clear winner at most positions and a mean that all positions share."""
    generator = torch.Generator().manual_seed(seed)
    return 4 * torch.randn(POSITIONS, VOCABULARY, generator=generator) + torch.linspace(-6, 0, VOCABULARY)


def stale(out: Tensor, before: Tensor) -> Tensor:
    return torch.cat((before[:4], out[4:]))


def one_nan(out: Tensor, before: Tensor) -> Tensor:  # noqa: ARG001
    out = out.clone()
    out[0, 0] = math.nan
    return out


SPOILS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "swapped_positions": lambda out, _: out.flip(0),
    "stale_prefix": stale,
    "earlier_observation": lambda _, before: before,
    "one_nan": one_nan,
    "half_scale": lambda out, _: 0.5 * out,
    "zeros": lambda out, _: torch.zeros_like(out),
    "sign_flip": lambda out, _: -out,
}


def judged(spoil: Callable[[Tensor, Tensor], Tensor], kind: str) -> Pass | Refusal:
    samples = [
        host_metrics(spoil(logits(index), logits(index + 100)), logits(index), kind, index) for index in range(12)
    ]
    verdict = judge_samples(kind, samples)
    assert isinstance(verdict, Pass | Refusal)
    return verdict


@pytest.mark.parametrize("kind", ["values", "distribution"])
def test_rounding_passes(kind: str) -> None:
    verdict = judged(lambda out, _: out.bfloat16().float(), kind)
    assert isinstance(verdict, Pass)


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("kind", ["values", "distribution"])
def test_mutant_is_refused(spoil: Callable[[Tensor, Tensor], Tensor], kind: str) -> None:
    verdict = judged(spoil, kind)
    if kind == "values" and spoil is SPOILS["half_scale"]:
        assert isinstance(verdict, Pass)  # a cosine cannot see a gain: the seam's slope does
    else:
        assert isinstance(verdict, Refusal)


def test_distribution_numbers_are_what_they_say() -> None:
    expected = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    candidate = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    result = host_metrics(candidate, expected, "distribution", 4)
    p = 1 / (1 + math.e)
    assert result.sample == 4
    assert result.top1 == pytest.approx(2 / 3)
    assert result.kl == pytest.approx((1 - 2 * p) * 1.0)
    assert result.last_cosine == 1.0
    assert result.cosine == pytest.approx(13 / 14)
    assert result.max_abs == 1.0


@pytest.mark.parametrize(
    ("candidate", "top1"),
    [
        pytest.param([[3.0, 0.0, 1.0]], 1.0, id="first_of_the_tie"),
        pytest.param([[0.0, 3.0, 1.0]], 1.0, id="other_of_the_tie"),
        pytest.param([[0.0, 1.0, 3.0]], 0.0, id="neither"),
    ],
)
def test_a_tie_of_the_host_has_two_right_answers(candidate: list[list[float]], top1: float) -> None:
    expected = torch.tensor([[2.0, 2.0, 1.0]])
    assert host_metrics(torch.tensor(candidate), expected, "distribution", 0).top1 == top1


def test_a_tie_of_the_candidate_is_no_answer() -> None:
    expected = torch.tensor([[0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    assert host_metrics(torch.zeros(2, 3), expected, "distribution", 0).top1 == 0.0


def test_values_report_no_distribution() -> None:
    result = host_metrics(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), "values", 0)
    assert (result.top1, result.kl) == (1.0, 0.0)
    assert result.cosine == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize(
    ("candidate", "expected", "cosine"), [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)], ids=str
)
def test_zero_outputs(candidate: float, expected: float, cosine: float) -> None:
    result = host_metrics(torch.full((2, 3), candidate), torch.full((2, 3), expected), "values", 0)
    assert result.cosine == cosine


@pytest.mark.parametrize("kind", ["values", "distribution"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["candidate", "expected"])
def test_broken_outputs_are_marked_and_stay_finite(kind: str, value: float, side: str) -> None:
    outputs = {"candidate": logits(1), "expected": logits(1)}
    outputs[side][3, 3] = value
    result = host_metrics(outputs["candidate"], outputs["expected"], kind, 0)
    assert not result.finite
    assert all(math.isfinite(number) for number in asdict(result).values())


@pytest.mark.parametrize("block", [1, VOCABULARY, 5 * VOCABULARY], ids=["less_than_a_row", "one_row", "five_rows"])
def test_blocks_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    def result() -> dict[str, float]:
        measured: HostMetrics = host_metrics(logits(1), logits(2), "distribution", 0)
        return asdict(measured)

    whole = result()
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", block)
    assert result() == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [(torch.ones(2, 3), torch.ones(3, 2)), (torch.ones(0, 3), torch.ones(0, 3))],
    ids=["other_shape", "nothing"],
)
def test_outputs_that_cannot_be_compared(candidate: Tensor, expected: Tensor) -> None:
    with pytest.raises(EvidenceError, match="cannot compare"):
        host_metrics(candidate, expected, "values", 0)


def test_unknown_kind_is_an_error() -> None:
    with pytest.raises(SpecError, match="embedding"):
        host_metrics(torch.ones(1), torch.ones(1), "embedding", 0)
