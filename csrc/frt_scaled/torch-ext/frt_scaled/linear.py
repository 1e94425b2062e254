"""``x[..., K] -> [..., N]`` over e4m3 codes with static scales, from ops that torch ships for every device.

No op of our own: a compiler sees the quantisation, the product and what follows it, and joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor, nn

FP8_MAX: Final = 448.0  # largest finite e4m3 number
MULTIPLE: Final = 16  # the scaled matmul of GPUs reads both widths sixteen codes at a time
CAPABILITY: Final = (8, 9)  # of the first GPUs that multiply e4m3
MATRIX: Final = 2
_LAYERS: Final = frozenset({"fp8_linear"})


class ScaledLinear(nn.Module):
    """``x[..., K]`` float32 to ``[..., N]`` float32. Owns no parameter: the original module stays the one to save.

    Args:
        codes: e4m3 [N, K].
        channel: Scale of each output channel, float32 [N].
        input_scale: Static scale of ``x``, float32 [].
        bias: float32 [N], or None.
    """

    def __init__(self, codes: Tensor, channel: Tensor, input_scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = codes.shape
        self._codes, self._channel, self._bias = codes.t(), channel, bias
        self._scale, self._inverse = input_scale, input_scale.reciprocal()
        self._one = torch.ones_like(input_scale)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to float32 ``x``; leading axes are free and may be empty."""
        if x.dtype != torch.float32:
            raise TypeError(f"the layer takes float32, got {x.dtype}")
        if torch.is_grad_enabled() and x.requires_grad:
            raise RuntimeError("the layer has no gradient; run it under torch.no_grad() or use the original module")
        if x.shape[-1] != self.in_features:
            raise ValueError(f"the layer takes {self.in_features} features, got {x.shape[-1]}")
        rows = x.reshape(-1, self.in_features)
        if not rows.shape[0]:
            return x.new_empty(*x.shape[:-1], self.out_features)
        codes = (rows * self._inverse).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
        sums = torch._scaled_mm(codes, self._codes, scale_a=self._scale, scale_b=self._one, out_dtype=torch.float32)
        out = sums * self._channel
        return (out if self._bias is None else out + self._bias).view(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Return the shape for ``print(model)``."""
        return f"{self.in_features}, {self.out_features}"


def unsupported(layer: str) -> str:
    """Return why a layer of this kernel cannot be built here, or an empty string.

    Raises:
        KeyError: there is no such layer.
    """
    if layer not in _LAYERS:
        raise KeyError(layer)
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < CAPABILITY:
        major, minor = torch.cuda.get_device_capability()
        return f"{layer} needs a GPU of capability {CAPABILITY[0]}.{CAPABILITY[1]}, this one has {major}.{minor}"
    return ""


@torch.no_grad()
def fp8_linear(weights: Sequence[Tensor], biases: Sequence[Tensor] = (), *, input_scale: float) -> ScaledLinear:
    """Merge e4m3 weights, one scale per piece; ``x`` is multiplied by ``1 / input_scale`` and clamped to +-448.

    Args:
        weights: Pieces float32 [N_i, K], K and the sum of N_i multiples of 16.
        biases: Pieces float32 [N_i], or none.
        input_scale: Static scale of ``x``.

    Raises:
        TypeError: a piece is not float32.
        ValueError: the pieces do not fit together, hold NaN or Inf, or the scale has no finite reciprocal.
    """
    weight = torch.cat([piece.detach() for piece in weights])
    bias = torch.cat([piece.detach() for piece in biases]) if biases else None
    _check(weight, bias)
    scale = torch.tensor(input_scale, dtype=torch.float32, device=weight.device)
    if not (scale > 0 and scale.isfinite() and scale.reciprocal().isfinite()):
        raise ValueError(f"the input scale {input_scale} has no positive, finite float32 reciprocal")
    pieces = [_quantised(piece) for piece in torch.split(weight, [piece.shape[0] for piece in weights])]
    codes = torch.cat([codes.view(torch.uint8) for codes, _ in pieces]).view(torch.float8_e4m3fn)
    channel = torch.cat([one.expand(codes.shape[0]) for codes, one in pieces])
    return ScaledLinear(codes, channel, scale, bias)


def _quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return e4m3 codes [N, K] and their scale ``amax / 448``; a tensor of zeros has scale 1."""
    largest = weight.abs().amax()
    scale = largest / torch.full_like(largest, FP8_MAX)  # a GPU multiplies by the reciprocal of a number
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (weight * scale.reciprocal()).clamp_(-FP8_MAX, FP8_MAX)
    return codes.to(torch.float8_e4m3fn), scale


def _check(weight: Tensor, bias: Tensor | None) -> None:
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is None:
            continue
        if tensor.dtype != torch.float32:
            raise TypeError(f"the {name} must be float32, got {tensor.dtype}")
        # One pass and no temporary: a NaN wins both ends.
        if tensor.numel() and not all(bound.isfinite() for bound in torch.aminmax(tensor)):
            raise ValueError(f"the {name} holds NaN or Inf")
    if weight.dim() != MATRIX or not weight.numel() or (bias is not None and bias.shape != weight.shape[:1]):
        raise ValueError(f"no linear layer: weight {tuple(weight.shape)}, bias {bias if bias is None else bias.shape}")
    for name, size in zip("NK", weight.shape, strict=True):
        if size % MULTIPLE:
            raise ValueError(f"{name} = {size} is no multiple of {MULTIPLE}")
