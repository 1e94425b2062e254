"""The ops and their shapes for tracing. ``x`` is ``[..., K]`` of at most eight rows; the result has its dtype.

``x`` is rounded to bfloat16 as it enters, half to even. Sums, scales, biases and activations are float32, and so is
what leaves unless ``x`` is bfloat16. A row's result depends on no other row, on no number of threads and on no path.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from ._ops import add_op_namespace_prefix, ops

MAX_ROWS: Final = 8
PATHS: Final = {"widest": 0, "plain": 1, "avx2": 2, "avx512": 3}

_LINEAR: Final = ops.linear.default
GATED: Final = {"gelu_tanh": ops.gelu_tanh_gated.default, "silu": ops.silu_gated.default}


def linear(x: Tensor, codes: Tensor, scale: Tensor, bias: Tensor | None = None, path: str = "widest") -> Tensor:
    """Return ``x codes' * scale + bias``.

    Args:
        x: float32 or bfloat16 ``[..., K]``.
        codes: int8 ``[N, K]``.
        scale: float32 ``[N]``.
        bias: float32 ``[N]``.
        path: One of ``PATHS``.

    Raises:
        RuntimeError: a shape, a dtype, more than eight rows, or a path that this CPU lacks.
    """
    out: Tensor = _LINEAR(x, codes, scale, bias, PATHS[path])
    return out


def gated(x: Tensor, codes: Tensor, scale: Tensor, activation: str, path: str = "widest") -> Tensor:
    """Return ``act(x gate') * (x up')``.

    Args:
        x: float32 or bfloat16 ``[..., K]``.
        codes: int8 ``[2 F, K]``, gate first.
        scale: float32 ``[2 F]``.
        activation: One of ``GATED``.
        path: One of ``PATHS``.

    Raises:
        KeyError: there is no such activation or path.
        RuntimeError: as :func:`linear`.
    """
    out: Tensor = GATED[activation](x, codes, scale, PATHS[path])
    return out


def widest() -> str:
    """Return the path that this CPU runs."""
    number: int = ops.widest.default()
    return next(name for name, value in PATHS.items() if value == number)


def _linear_shape(x: Tensor, codes: Tensor, _scale: Tensor, _bias: Tensor | None = None, _path: int = 0) -> Tensor:
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


def _gated_shape(x: Tensor, codes: Tensor, _scale: Tensor, _path: int = 0) -> Tensor:
    return x.new_empty((*x.shape[:-1], codes.shape[0] // 2))


torch.library.register_fake(add_op_namespace_prefix("linear"), _linear_shape)
for _name in ("gelu_tanh_gated", "silu_gated"):
    torch.library.register_fake(add_op_namespace_prefix(_name), _gated_shape)
