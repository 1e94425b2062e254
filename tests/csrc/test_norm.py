"""The layer norm of the kernel: its formula, its memory, its refusals; handles are those of every layer."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

D = 40


@pytest.fixture
def vectors() -> tuple[Tensor, Tensor]:
    """Return scale and shift ``[D]``, distinct and non-unit."""
    generator = torch.Generator().manual_seed(6)
    return 1 + 0.3 * torch.randn(D, generator=generator), 0.3 * torch.randn(D, generator=generator)


@pytest.mark.parametrize("eps", [0.0, 1e-12, 1e-5, 0.1])
@pytest.mark.parametrize("shape", [(1, D), (7, D), (2, 3, D), (D,), (0, D), (2, 0, D)], ids=str)
def test_layer_is_layer_norm(
    kernel: ModuleType, vectors: tuple[Tensor, Tensor], shape: tuple[int, ...], eps: float
) -> None:
    x = torch.randn(shape)
    got = kernel.layer_norm(*vectors, eps=eps)(x)
    assert torch.equal(got, F.layer_norm(x, (D,), *vectors, eps))
    assert got.is_contiguous()


def test_layer_keeps_no_vector_of_the_caller(kernel: ModuleType, vectors: tuple[Tensor, Tensor]) -> None:
    part, x = kernel.layer_norm(*vectors, eps=1e-5), torch.randn(3, D)
    kept = part(x)
    for vector in vectors:
        vector.zero_()
    assert torch.equal(part(x), kept)
    assert not [*part.parameters(), *part.buffers()]
    assert part.nbytes == 2 * 4 * D


def test_vectors_are_freed_with_the_layer(kernel: ModuleType, vectors: tuple[Tensor, Tensor]) -> None:
    part = kernel.layer_norm(*vectors, eps=1e-5)
    handle = part.handle
    assert handle in kernel.held._TABLE
    del part
    assert handle not in kernel.held._TABLE


def test_another_width_is_refused(kernel: ModuleType, vectors: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(ValueError, match=f"takes {D} features, got {D - 1}"):
        kernel.layer_norm(*vectors, eps=1e-5)(torch.randn(2, D - 1))


def test_handle_of_a_linear_layer_is_refused(kernel: ModuleType, vectors: tuple[Tensor, Tensor]) -> None:
    norm, linear = kernel.layer_norm(*vectors, eps=1e-5), kernel.plain_linear([torch.randn(D, D)])
    with pytest.raises(RuntimeError, match="holds Plain, the op needs Norm"):
        norm._op(torch.randn(2, D), linear.handle, D)


@pytest.mark.parametrize(
    ("weight", "bias", "eps", "error", "words"),
    [
        (torch.ones(D).double(), torch.ones(D), 1e-5, TypeError, "the weight must be float32 on cpu"),
        (torch.ones(D), torch.ones(D, device="meta"), 1e-5, TypeError, "the bias must be float32 on cpu"),
        (torch.full((D,), math.nan), torch.ones(D), 1e-5, ValueError, "the weight holds NaN or Inf"),
        (torch.ones(D), torch.full((D,), math.inf), 1e-5, ValueError, "the bias holds NaN or Inf"),
        (torch.ones(D), torch.ones(D - 1), 1e-5, ValueError, "no layer norm"),
        (torch.ones(2, D), torch.ones(2, D), 1e-5, ValueError, "no layer norm"),
        (torch.ones(0), torch.ones(0), 1e-5, ValueError, "no layer norm"),
        (torch.ones(D), torch.ones(D), -1e-5, ValueError, "the epsilon -1e-05"),
        (torch.ones(D), torch.ones(D), math.nan, ValueError, "the epsilon nan"),
    ],
    ids=["float64", "meta", "nan", "inf", "two_sizes", "matrix", "empty", "negative_epsilon", "nan_epsilon"],
)
def test_what_is_no_layer_norm_is_refused(
    kernel: ModuleType, weight: Tensor, bias: Tensor, eps: float, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        kernel.layer_norm(weight, bias, eps=eps)
