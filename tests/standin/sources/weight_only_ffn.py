"""``flashrt/weight-only-ffn`` in plain torch, its int8 part: signatures, scales and rounding points as published."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import common
from ._ops import register

_QUANTISE = "(Tensor weight, Tensor(a!) quantized, Tensor(b!) scales) -> ()"
_GATED = (
    "(Tensor x, Tensor gu_w, Tensor gu_s, Tensor dn_w, Tensor dn_s, Tensor? gu_b, Tensor? dn_b, bool gelu, "
    "int variant, Tensor(a!) gu, Tensor(b!) hidden, Tensor(c!) out) -> ()"
)
LEAST_SCALE = 1e-12
MIB = 1 << 20


def _quantise(weight: Tensor, quantized: Tensor, scales: Tensor) -> None:
    common.check_matrix(weight, torch.bfloat16, "weight")
    common.check(weight.shape[1] % 64 == 0, "K must be divisible by 64")
    scales.copy_((weight.float().abs().amax(1) / 127.0).clamp(min=LEAST_SCALE))
    quantized.copy_((weight.float() / scales[:, None]).round().clamp(-127, 127))


def _linear(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    common.check_matrix(x, torch.bfloat16, "x")
    common.check_matrix(codes, torch.int8, "quantized")
    common.check(x.shape[1] % 64 == 0, "K must be divisible by 64")
    common.check(scales.shape == codes.shape[:1] and scales.dtype == torch.float32, "scales must have shape (N,)")
    return (x.float() @ codes.float().t()) * scales


def _check_variant(rows: int, variant: int, elements: int) -> None:
    common.check(0 <= variant <= 3, "variant must be 0(auto), 1(dense), 2(4-warp small-M), or 3(8-warp small-M)")
    common.check(variant == 1 or rows <= (8 if variant else 4), f"variant {variant} does not take M={rows}")
    least = (16 if rows == 4 else 8) * MIB
    common.check(variant != 0 or elements >= least, "W8A16 gated FFN auto dispatch is not qualified for this shape")


def _gated(  # noqa: PLR0913, PLR0917 (as published)
    x: Tensor,
    gu_w: Tensor,
    gu_s: Tensor,
    dn_w: Tensor,
    dn_s: Tensor,
    gu_b: Tensor | None,
    dn_b: Tensor | None,
    gelu: bool,  # noqa: FBT001 (the schema)
    variant: int,
    gu: Tensor,
    hidden: Tensor,
    out: Tensor,
) -> None:
    _check_variant(x.shape[0], variant, gu_w.numel() + dn_w.numel())
    common.check(gu_b is None and dn_b is None, "the stand-in has no biased form")
    gu.copy_(_linear(x, gu_w, gu_s))
    gate, up = gu.float().chunk(2, -1)
    hidden.copy_((common.gelu_tanh(gate) if gelu else common.silu(gate)) * up)
    out.copy_(_linear(hidden, dn_w, dn_s))


QUANTISE = register("quantize_w8_weight_bf16", _QUANTISE, _quantise)
GATED = register("w8a16_gated_ffn_bf16", _GATED, _gated)


def quantize_w8_weight_bf16(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return codes int8 ``[N, K]`` and scales float32 ``[N]``, ``amax / 127``, half to even."""
    codes = torch.empty_like(weight, dtype=torch.int8)
    scales = torch.empty((weight.shape[0],), device=weight.device, dtype=torch.float32)
    QUANTISE(weight, codes, scales)
    return codes, scales


def _ffn(  # noqa: PLR0913 (as published)
    x: Tensor,
    gate_up_weight: Tensor,
    gate_up_scale: Tensor,
    down_weight: Tensor,
    down_scale: Tensor,
    *,
    gelu: bool,
    gate_up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    variant: int = 0,
    workspace: tuple[Tensor, Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    rows, wide = x.shape[0], gate_up_weight.shape[0]
    if workspace is None:
        workspace = x.new_empty((rows, wide)), x.new_empty((rows, wide // 2))
    out = x.new_empty((rows, down_weight.shape[0])) if out is None else out
    GATED(
        x, gate_up_weight, gate_up_scale, down_weight, down_scale,
        gate_up_bias, down_bias, gelu, variant, *workspace, out,
    )  # fmt: skip
    return out


def w8a16_swiglu_ffn_bf16(
    x: Tensor, gate_up_weight: Tensor, gate_up_scale: Tensor, down_weight: Tensor, down_scale: Tensor, **kwargs: Any
) -> Tensor:
    """Return ``silu(gate) * up`` projected; rows of ``gate_up_weight`` are gate first."""
    return _ffn(x, gate_up_weight, gate_up_scale, down_weight, down_scale, gelu=False, **kwargs)


def w8a16_geglu_ffn_bf16(
    x: Tensor, gate_up_weight: Tensor, gate_up_scale: Tensor, down_weight: Tensor, down_scale: Tensor, **kwargs: Any
) -> Tensor:
    """Return ``gelu_tanh(gate) * up`` projected; rows of ``gate_up_weight`` are gate first."""
    return _ffn(x, gate_up_weight, gate_up_scale, down_weight, down_scale, gelu=True, **kwargs)
