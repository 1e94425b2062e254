"""Layers over int8 codes. They copy what they are given and own no parameter: the original module is the one to save.

Codes are symmetric, ``amax / 127`` per output channel, half to even; -128 is not used and a channel of zeros has
scale 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

import torch
from torch import Tensor, nn

from . import ops

INT8_MAX: Final = 127
MATRIX: Final = 2
ACTIVATIONS: Final = tuple(ops.GATED)


class _Int8(nn.Module):
    """Codes ``[N, K]``, their scales ``[N]``, and what every call checks."""

    def __init__(self, codes: Tensor, scale: Tensor) -> None:
        super().__init__()
        # Plain attributes: a buffer would appear in state_dict.
        self.codes, self.scale = codes, scale
        self.in_features = codes.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self.codes.nbytes + self.scale.nbytes

    def _checked(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise ValueError(f"the layer takes {self.in_features} features, got {x.shape[-1]}")
        if torch.is_grad_enabled() and x.requires_grad:
            raise RuntimeError("the layer has no gradient; run it under torch.no_grad() or use the original module")
        return x

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        raise TypeError("packed weights cannot be copied: detach them from the model, copy it, and bind again")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("packed weights cannot be copied or pickled: detach them from the model and bind again")


class Int8Linear(_Int8):
    """``x[..., K] -> [..., N]``, float32 or bfloat16 as ``x`` is, for up to eight rows.

    Args:
        codes: int8 ``[N, K]``.
        scale: float32 ``[N]``.
        bias: float32 ``[N]``.
    """

    def __init__(self, codes: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__(codes, scale)
        self.bias = bias
        self.out_features = codes.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return ops.linear(self._checked(x), self.codes, self.scale, self.bias)


class Int8Gated(_Int8):
    """``act(x gate') * (x up')``: ``x[..., K] -> [..., F]`` in one pass over both weights.

    Args:
        codes: int8 ``[2 F, K]``, gate first.
        scale: float32 ``[2 F]``.
        activation: One of ``ACTIVATIONS``.
    """

    def __init__(self, codes: Tensor, scale: Tensor, activation: str) -> None:
        super().__init__(codes, scale)
        self.activation = activation
        self.out_features = codes.shape[0] // 2

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer."""
        return ops.gated(self._checked(x), self.codes, self.scale, self.activation)


def int8_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = ()) -> Int8Linear:
    """Quantise pieces ``[N_i, K]`` side by side along their outputs.

    Args:
        weights: float32 or bfloat16.
        biases: One ``[N_i]`` per piece, or none; added in float32.

    Raises:
        TypeError: a piece is neither, or not on cpu.
        ValueError: a piece holds NaN or Inf, or the shapes make no linear layer.
    """
    codes, scale = _quantised(weights)
    bias = torch.cat([piece.detach().float() for piece in biases]) if biases else None
    if bias is not None and (bias.shape != scale.shape or not bias.isfinite().all()):
        raise ValueError(f"the bias must hold {scale.numel()} finite numbers, got {tuple(bias.shape)}")
    return Int8Linear(codes, scale, bias)


def int8_gated(gate: Tensor, up: Tensor, activation: str) -> Int8Gated:
    """Quantise gate and up ``[F, K]``.

    Raises:
        TypeError: as :func:`int8_linear`.
        ValueError: as :func:`int8_linear`, or there is no such activation.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation {activation!r} is none of {', '.join(ACTIVATIONS)}")
    if gate.shape != up.shape:
        raise ValueError(f"gate {tuple(gate.shape)} and up {tuple(up.shape)} differ in shape")
    return Int8Gated(*_quantised((gate, up)), activation)


def int8_feed_forward(gate: Tensor, up: Tensor, down: Tensor, activation: str) -> nn.Sequential:
    """Quantise a gated block ``x[..., D] -> [..., D]``: gate and up ``[F, D]``, down ``[D, F]``.

    Raises:
        TypeError: as :func:`int8_linear`.
        ValueError: as :func:`int8_gated`.
    """
    return nn.Sequential(int8_gated(gate, up, activation), int8_linear((down,)))


@torch.no_grad()
def _quantised(weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return codes int8 [N, K] and scale float32 [N] of all pieces."""
    depths = {piece.shape[-1] for piece in weights if piece.dim() == MATRIX and piece.numel()}
    if len(depths) != 1 or any(piece.dim() != MATRIX for piece in weights):
        raise ValueError(f"no linear layer: weights {[tuple(piece.shape) for piece in weights]}")
    found = [_codes(piece.detach()) for piece in weights]
    return torch.cat([codes for codes, _ in found]), torch.cat([scale for _, scale in found])


def _codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    if weight.dtype not in {torch.float32, torch.bfloat16} or weight.device.type != "cpu":
        raise TypeError(f"the weight must be float32 or bfloat16 on cpu, got {weight.dtype} on {weight.device}")
    wide = weight.float()
    scale = wide.abs().amax(dim=1) / INT8_MAX
    if not scale.isfinite().all():  # a NaN or an infinity anywhere in a row is its largest number
        raise ValueError("the weight holds NaN or Inf")
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (wide / scale[:, None]).round_().clamp_(-INT8_MAX, INT8_MAX)
    return codes.to(torch.int8), scale
