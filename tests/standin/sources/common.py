"""What the ops of several packages share: their checks, the e4m3 rounding, the matmuls, the activations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

E4M3 = torch.float8_e4m3fn
E4M3_MAX = 448.0
VECTOR_BYTES = 4
"""What the quantising kernels load at once; the device faults where the stand-in raises."""


def check(condition: bool, message: str) -> None:  # noqa: FBT001 (as the macro that it stands for)
    """Raise what the bindings of the packages raise."""
    if not condition:
        raise RuntimeError(message)


def check_matrix(tensor: Tensor, dtype: torch.dtype, name: str) -> None:
    """Refuse what is no dense, non-empty matrix of a dtype."""
    check(tensor.is_contiguous(), f"{name} must be contiguous")
    check(tensor.dtype == dtype, f"{name} must have dtype {dtype}")
    check(tensor.dim() == 2, f"{name} must be a 2D tensor")
    check(tensor.numel() > 0, f"{name} dimensions must be non-zero")
    check(tensor.data_ptr() % VECTOR_BYTES == 0, f"{name}: misaligned address")


def check_vector(tensor: Tensor, size: int, name: str) -> None:
    """Refuse what is no dense bfloat16 vector of a size."""
    check(tensor.is_contiguous(), f"{name} must be contiguous")
    check(tensor.dtype == torch.bfloat16, f"{name} must have dtype torch.bfloat16")
    check(tensor.shape == (size,), f"{name} must have {size} elements")


def check_scale(tensor: Tensor, name: str) -> None:
    """Refuse what is no float32 tensor of one element."""
    check(tensor.dtype == torch.float32, f"{name} must have dtype torch.float32")
    check(tensor.numel() == 1, f"{name} must contain exactly one value")


def to_e4m3(x: Tensor, scale: Tensor) -> Tensor:
    """Round ``x * (1 / scale)``, clamped as ``fminf(fmaxf(..))`` does: NaN becomes -448."""
    return torch.nan_to_num(x.float() * (1.0 / scale), nan=-E4M3_MAX).clamp(-E4M3_MAX, E4M3_MAX).to(E4M3)


def quantise_rows(x: Tensor, scale: Tensor, into: Tensor) -> None:
    """Fill the first rows of a buffer with the codes of ``x``, and those that pad it with zeros."""
    padding = x.new_zeros((into.shape[0] - x.shape[0], x.shape[1]))
    into.copy_(to_e4m3(torch.cat((x, padding)), scale))


Form = tuple[int, torch.dtype]
"""Width and dtype of a buffer."""


def buffers(x: Tensor, given: Sequence[Tensor | None], forms: Sequence[Form], pad_to: int | None) -> list[Tensor]:
    """Return the buffers that are given, and one of its form with as many rows as padding asks where none is.

    Raises:
        ValueError: fewer rows are asked than there are.
    """
    rows = x.shape[0] if pad_to is None else pad_to
    if rows < x.shape[0]:
        raise ValueError("pad_to must be >= input.shape[0]")
    return [
        torch.empty((rows, width), device=x.device, dtype=dtype) if buffer is None else buffer
        for buffer, (width, dtype) in zip(given, forms, strict=True)
    ]


def fp8_sums(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """Return ``(x * x_scale) @ (weight * weight_scale)'`` in float32, unrounded."""
    check_matrix(x, E4M3, "input")
    check_matrix(weight, E4M3, "weight")
    check_scale(x_scale, "input_scale")
    check_scale(weight_scale, "weight_scale")
    check(x.shape[1] == weight.shape[1], "input.shape[1] must match weight.shape[1]")
    check(x.shape[1] % 16 == 0 and weight.shape[0] % 16 == 0, "no FP8 GEMM algorithm")
    return (x.float() @ weight.float().t()) * (x_scale * weight_scale)


def gelu_tanh(x: Tensor) -> Tensor:
    """Return the tanh form of GELU."""
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def silu(x: Tensor) -> Tensor:
    """Return ``x / (1 + exp(-x))``."""
    return x / (1.0 + torch.exp(-x))
