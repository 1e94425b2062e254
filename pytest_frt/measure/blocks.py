"""Rows in float64 blocks, and the two ratios of sums that every metric is made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from torch import Tensor

BLOCK_ELEMENTS: Final = 1 << 20
"""Elements of one float64 block: 8 MiB per operand, at least one row."""
TOTAL_ERROR: Final = 1.0
"""Relative error against a zero reference, where the candidate's own norm is the only scale there is."""


def as_rows(tensor: Tensor) -> Tensor:
    """Return ``[..., K]`` as ``[M, K]`` with M the product of the leading axes (a vector is one row)."""
    return tensor.reshape(1, -1) if tensor.dim() < 2 else tensor.flatten(0, -2)  # noqa: PLR2004


def blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yield equally shaped tensors ``[M, K]`` in blocks of whole rows, in float64; none when there are no rows."""
    rows, width = tensors[0].shape
    step = max(1, BLOCK_ELEMENTS // max(1, width))
    for start in range(0, rows, step):
        yield tuple(tensor[start : start + step].double() for tensor in tensors)


def relative(error: float, norm: float) -> float:
    """Return ``error / norm``; 0 without an error, ``TOTAL_ERROR`` for an error against a zero reference."""
    if error == 0.0:
        return 0.0
    return error / norm if norm > 0.0 else TOTAL_ERROR


def cosine(dot: float, left_square: float, right_square: float) -> float:
    """Return the cosine from a dot product and two squared norms; 1 for two zero vectors, 0 for one."""
    if left_square == 0.0 or right_square == 0.0:
        return 1.0 if left_square == right_square else 0.0
    return dot / (math.sqrt(left_square) * math.sqrt(right_square))
