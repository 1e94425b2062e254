"""``flashrt/flashrt-gemm-epilogues`` in plain torch, its projections: weights are ``[K, N]``."""

from __future__ import annotations

import torch
from torch import Tensor

from . import common
from ._ops import register


def _sums(x: Tensor, w: Tensor) -> Tensor:
    common.check_matrix(x, torch.bfloat16, "x")
    common.check_matrix(w, torch.bfloat16, "w")
    common.check(x.shape[1] == w.shape[0], "x.shape[1] must match w.shape[0]")
    return x.float() @ w.float()


def _linear(x: Tensor, w: Tensor, out: Tensor) -> None:
    out.copy_(_sums(x, w))


def _linear_bias(x: Tensor, w: Tensor, bias: Tensor, out: Tensor) -> None:
    common.check_vector(bias, w.shape[1], "bias")
    out.copy_(_sums(x, w) + bias.float())


LINEAR = register("bf16_linear_bf16", "(Tensor x, Tensor w, Tensor(a!) out) -> ()", _linear)
LINEAR_BIAS = register("bf16_linear_bias_bf16", "(Tensor x, Tensor w, Tensor bias, Tensor(a!) out) -> ()", _linear_bias)


def bf16_linear_bf16(x: Tensor, w: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``x @ w``."""
    out = x.new_empty((x.shape[0], w.shape[1])) if out is None else out
    LINEAR(x, w, out)
    return out


def bf16_linear_bias_bf16(x: Tensor, w: Tensor, bias: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``x @ w + bias``, rounded once."""
    out = x.new_empty((x.shape[0], w.shape[1])) if out is None else out
    LINEAR_BIAS(x, w, bias, out)
    return out
