"""``flashrt/flashrt-fp8-ffn`` in plain torch: signatures, scales and rounding points as published."""

from __future__ import annotations

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


def _padded(x: Tensor, pad_to: int | None) -> int:
    rows = x.shape[0] if pad_to is None else pad_to
    if rows < x.shape[0]:
        raise ValueError("pad_to must be >= input.shape[0]")
    return rows


def _buffer(given: Tensor | None, x: Tensor, rows: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.empty((rows, width), device=x.device, dtype=dtype) if given is None else given


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
    rows = _padded(input, pad_to)
    codes = _buffer(input_fp8, input, rows, input.shape[1], common.E4M3)
    left = _buffer(out, input, rows, weight.shape[0], torch.bfloat16)
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
    rows = _padded(input, pad_to)
    widths = (input.shape[1], up_weight.shape[0], up_weight.shape[0], down_weight.shape[0])
    dtypes = (common.E4M3, torch.bfloat16, common.E4M3, torch.bfloat16)
    given = (input_fp8, hidden_bf16, hidden_fp8, out)
    buffers = [_buffer(one, input, rows, *form) for one, *form in zip(given, widths, dtypes, strict=True)]
    scales = (input_scale, up_weight_scale, hidden_scale, down_weight_scale)
    MLP(input, up_weight, up_bias, down_weight, down_bias, *scales, *buffers)
    return buffers[-1][: input.shape[0]]


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
    rows = _padded(input, pad_to)
    widths = (input.shape[1], up_weight.shape[0], up_weight.shape[0], down_weight.shape[0])
    dtypes = (common.E4M3, torch.bfloat16, common.E4M3, torch.bfloat16)
    given = (input_fp8, hidden_bf16, hidden_fp8, out)
    buffers = [_buffer(one, input, rows, *form) for one, *form in zip(given, widths, dtypes, strict=True)]
    scales = (input_scale, up_weight_scale, hidden_scale, down_weight_scale)
    MLP_V2(input, up_weight, up_bias, down_weight, down_bias, *scales, *buffers)
    return buffers[-1][: input.shape[0]]
