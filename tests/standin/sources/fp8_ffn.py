"""``flashrt/flashrt-fp8-ffn`` in plain torch: signatures, scales and rounding points as published."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import common
from ._ops import register

_LINEAR = (
    "(Tensor input, Tensor weight, Tensor bias, Tensor input_scale, Tensor weight_scale, "
    "Tensor(a!) input_fp8, Tensor(b!) out) -> ()"
)
_MLP = (
    "(Tensor input, Tensor up_weight, Tensor up_bias, Tensor down_weight, Tensor down_bias, Tensor input_scale, "
    "Tensor up_weight_scale, Tensor hidden_scale, Tensor down_weight_scale, Tensor(a!) input_fp8, "
    "Tensor(b!) hidden_bf16, Tensor(c!) hidden_fp8, Tensor(d!) out) -> ()"
)


def _quantise(x: Tensor, scale: Tensor, into: Tensor) -> None:
    common.check_matrix(x, torch.bfloat16, "input")
    common.quantise_rows(x, scale, into)


def _linear(
    x: Tensor, weight: Tensor, bias: Tensor, input_scale: Tensor, weight_scale: Tensor, input_fp8: Tensor, out: Tensor
) -> None:
    common.check_vector(bias, weight.shape[0], "bias")
    _quantise(x, input_scale, input_fp8)
    out.copy_(common.fp8_sums(input_fp8, weight, input_scale, weight_scale))
    out.copy_(out.float() + bias.float())


def _mlp(
    layers: tuple[Tensor, ...], scales: tuple[Tensor, ...], buffers: tuple[Tensor, ...], *, epilogue: bool
) -> None:
    x, up_weight, up_bias, down_weight, down_bias = layers
    input_scale, up_scale, hidden_scale, down_scale = scales
    input_fp8, hidden_bf16, hidden_fp8, out = buffers
    common.check_vector(up_bias, up_weight.shape[0], "up_bias")
    common.check_vector(down_bias, down_weight.shape[0], "down_bias")
    _quantise(x, input_scale, input_fp8)
    hidden_bf16.copy_(common.fp8_sums(input_fp8, up_weight, input_scale, up_scale))
    hidden = common.gelu_tanh(hidden_bf16.float() + up_bias.float())
    hidden_fp8.copy_(common.to_e4m3(hidden, hidden_scale))
    sums = common.fp8_sums(hidden_fp8, down_weight, hidden_scale, down_scale)
    out.copy_((sums if epilogue else sums.bfloat16().float()) + down_bias.float())


def _mlp_v1(*given: Tensor) -> None:
    _mlp(given[:5], given[5:9], given[9:], epilogue=False)


def _mlp_v2(*given: Tensor) -> None:
    _mlp(given[:5], given[5:9], given[9:], epilogue=True)


LINEAR = register("bf16_fp8_linear_bias_bf16", _LINEAR, _linear)
MLP = register("bf16_fp8_gelu_mlp_bf16", _MLP, _mlp_v1)
MLP_V2 = register("bf16_fp8_gelu_mlp_v2_bf16", _MLP, _mlp_v2)


def _block(
    op: Callable[..., None],
    layers: tuple[Tensor, ...],
    scales: tuple[Tensor, ...],
    given: tuple[Tensor | None, ...],
    pad_to: int | None,
) -> Tensor:
    x, up_weight, _, down_weight, _ = layers
    hidden = up_weight.shape[0]
    forms = (
        (x.shape[1], common.E4M3),
        (hidden, torch.bfloat16),
        (hidden, common.E4M3),
        (down_weight.shape[0], torch.bfloat16),
    )
    buffers = common.buffers(x, given, forms, pad_to)
    op(*layers, *scales, *buffers)
    return buffers[-1][: x.shape[0]]


def bf16_fp8_linear_bias_bf16(
    input: Tensor,  # noqa: A002 (as published)
    weight: Tensor,
    bias: Tensor,
    input_scale: Tensor,
    weight_scale: Tensor,
    input_fp8: Tensor | None = None,
    out: Tensor | None = None,
    *,
    pad_to: int | None = None,
) -> Tensor:
    """Return the projection plus its bias, each rounded to bfloat16."""
    forms = ((input.shape[1], common.E4M3), (weight.shape[0], torch.bfloat16))
    codes, left = common.buffers(input, (input_fp8, out), forms, pad_to)
    LINEAR(input, weight, bias, input_scale, weight_scale, codes, left)
    return left[: input.shape[0]]


def bf16_fp8_gelu_mlp_bf16(  # noqa: PLR0913, PLR0917 (as published)
    input: Tensor,  # noqa: A002 (as published)
    up_weight: Tensor,
    up_bias: Tensor,
    down_weight: Tensor,
    down_bias: Tensor,
    input_scale: Tensor,
    up_weight_scale: Tensor,
    hidden_scale: Tensor,
    down_weight_scale: Tensor,
    input_fp8: Tensor | None = None,
    hidden_bf16: Tensor | None = None,
    hidden_fp8: Tensor | None = None,
    out: Tensor | None = None,
    *,
    pad_to: int | None = None,
) -> Tensor:
    """Return two biased layers with a GELU between them; the last sum is rounded before its bias is added."""
    layers = (input, up_weight, up_bias, down_weight, down_bias)
    scales = (input_scale, up_weight_scale, hidden_scale, down_weight_scale)
    return _block(MLP, layers, scales, (input_fp8, hidden_bf16, hidden_fp8, out), pad_to)


def bf16_fp8_gelu_mlp_v2_bf16(  # noqa: PLR0913, PLR0917 (as published)
    input: Tensor,  # noqa: A002 (as published)
    up_weight: Tensor,
    up_bias: Tensor,
    down_weight: Tensor,
    down_bias: Tensor,
    input_scale: Tensor,
    up_weight_scale: Tensor,
    hidden_scale: Tensor,
    down_weight_scale: Tensor,
    input_fp8: Tensor | None = None,
    hidden_bf16: Tensor | None = None,
    hidden_fp8: Tensor | None = None,
    out: Tensor | None = None,
    *,
    pad_to: int | None = None,
) -> Tensor:
    """Return what the op without ``v2`` does, with the last bias added before its sum is rounded."""
    layers = (input, up_weight, up_bias, down_weight, down_bias)
    scales = (input_scale, up_weight_scale, hidden_scale, down_weight_scale)
    return _block(MLP_V2, layers, scales, (input_fp8, hidden_bf16, hidden_fp8, out), pad_to)
