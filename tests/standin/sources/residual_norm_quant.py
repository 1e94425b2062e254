"""``flashrt/flashrt-residual-norm-quant`` in plain torch: float32 sums, one rounding, a residual that is written to."""

from __future__ import annotations

import torch
from torch import Tensor

from . import common
from ._ops import register


def _check(x: Tensor, *vectors: Tensor) -> None:
    common.check_matrix(x, torch.bfloat16, "x")
    common.check(x.shape[1] % 2 == 0, "x.shape[1] must be even for packed BF16 path")
    for vector in vectors:
        common.check_vector(vector, x.shape[1], "weight")


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float, out: Tensor) -> None:
    _check(x, weight, bias)
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    out.copy_(centred * inverse * weight.float() + bias.float())


def _residual_norm(residual: Tensor, x: Tensor, weight: Tensor, scale: Tensor, eps: float, out: Tensor) -> None:
    _check(residual)
    _check(x, weight)
    common.check_scale(scale, "scale")
    added = residual.float() + x.float()
    residual.copy_(added)  # the caller's, rounded; the variance below is that of the sum before
    inverse = torch.rsqrt(added.square().mean(-1, keepdim=True) + eps)
    out.copy_(common.to_e4m3(residual.float() * inverse * weight.float(), scale))


LAYER_NORM = register(
    "layer_norm_bf16", "(Tensor x, Tensor weight, Tensor bias, float eps, Tensor(a!) out) -> ()", _layer_norm
)
RESIDUAL_NORM = register(
    "residual_add_rms_norm_quant_fp8_static_bf16",
    "(Tensor(a!) residual, Tensor x, Tensor weight, Tensor scale, float eps, Tensor(b!) out) -> ()",
    _residual_norm,
)


def layer_norm_bf16(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5, out: Tensor | None = None) -> Tensor:
    """Return the layer norm of every row."""
    out = torch.empty_like(x) if out is None else out
    LAYER_NORM(x, weight, bias, float(eps), out)
    return out


def residual_add_rms_norm_quant_fp8_static_bf16(
    residual: Tensor, x: Tensor, weight: Tensor, scale: Tensor, eps: float = 1e-6, out: Tensor | None = None
) -> Tensor:
    """Add ``x`` to ``residual`` in place and return the root-mean-square norm of it as e4m3."""
    out = torch.empty_like(x, dtype=common.E4M3) if out is None else out
    RESIDUAL_NORM(residual, x, weight, scale, float(eps), out)
    return out
