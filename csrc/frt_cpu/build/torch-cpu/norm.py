"""Layer norm as one op behind a handle, in the manner of the linear layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from . import ops
from .held import Norm
from .linear import PackedLinear, check


class HeldNorm(PackedLinear):
    """``x[..., D] -> [..., D]``: layer norm with scale and shift. Owns no parameter.

    Args:
        held: Copies of its vectors; freed when this module dies.
    """

    def __init__(self, held: Norm) -> None:
        width = held.weight.numel()
        super().__init__(ops.LAYER_NORM, held, (width, width), held.weight.nbytes + held.bias.nbytes)


@torch.no_grad()
def layer_norm(weight: Tensor, bias: Tensor, *, eps: float) -> HeldNorm:
    """Hold copies of the vectors of a layer norm.

    Args:
        weight: Scale float32 [D].
        bias: Shift float32 [D].
        eps: Added to the variance before the root.

    Raises:
        TypeError: a vector is not float32 on the CPU.
        ValueError: a vector holds NaN or Inf, the two are no vectors of one size, or ``eps`` is negative or not finite.
    """
    check("weight", weight)
    check("bias", bias)
    if weight.dim() != 1 or not weight.numel() or bias.shape != weight.shape:
        raise ValueError(f"no layer norm: weight {tuple(weight.shape)}, bias {tuple(bias.shape)}")
    if not 0.0 <= eps < math.inf:
        raise ValueError(f"the epsilon {eps} is not zero or positive and finite")
    return HeldNorm(Norm(weight.detach().clone(), bias.detach().clone(), eps))
