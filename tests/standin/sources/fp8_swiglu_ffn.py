"""``flashrt/flashrt-fp8-swiglu-ffn`` in plain torch: signatures, scales and rounding points as published."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import common
from ._ops import register

_SCHEMA = (
    "(Tensor input, Tensor gate_up_weight, Tensor down_weight, Tensor input_scale, Tensor gate_up_weight_scale, "
    "Tensor hidden_scale, Tensor down_weight_scale, Tensor(a!) input_fp8, Tensor(b!) gate_up_bf16, "
    "Tensor(c!) hidden_fp8, Tensor(d!) out) -> ()"
)


def _gated(gate_up: Tensor, hidden_scale: Tensor, *, gelu: bool) -> Tensor:
    gate, up = gate_up.float().chunk(2, -1)
    hidden = (common.gelu_tanh(gate) if gelu else common.silu(gate)) * up
    return common.to_e4m3(hidden, hidden_scale)


def _run(operands: tuple[Tensor, ...], scales: tuple[Tensor, ...], buffers: tuple[Tensor, ...], *, gelu: bool) -> None:
    x, gate_up_weight, down_weight = operands
    input_scale, gate_up_scale, hidden_scale, down_scale = scales
    input_fp8, gate_up, hidden_fp8, out = buffers
    common.check_matrix(x, torch.bfloat16, "input")
    common.quantise_rows(x, input_scale, input_fp8)
    gate_up.copy_(common.fp8_sums(input_fp8, gate_up_weight, input_scale, gate_up_scale))
    hidden_fp8.copy_(_gated(gate_up, hidden_scale, gelu=gelu))
    out.copy_(common.fp8_sums(hidden_fp8, down_weight, hidden_scale, down_scale))


def _swiglu(*given: Tensor) -> None:
    _run(given[:3], given[3:7], given[7:], gelu=False)


def _geglu(*given: Tensor) -> None:
    _run(given[:3], given[3:7], given[7:], gelu=True)


SWIGLU = register("bf16_fp8_swiglu_mlp_bf16", _SCHEMA, _swiglu)
GEGLU = register("bf16_fp8_geglu_mlp_bf16", _SCHEMA, _geglu)


def _block(
    op: Callable[..., None],
    operands: tuple[Tensor, ...],
    scales: tuple[Tensor, ...],
    given: tuple[Tensor | None, ...],
    pad_to: int | None,
) -> Tensor:
    x, gate_up_weight, down_weight = operands
    wide = gate_up_weight.shape[0]
    forms = (
        (x.shape[1], common.E4M3),
        (wide, torch.bfloat16),
        (wide // 2, common.E4M3),
        (down_weight.shape[0], torch.bfloat16),
    )
    buffers = common.buffers(x, given, forms, pad_to)
    op(*operands, *scales, *buffers)
    return buffers[-1][: x.shape[0]]


def bf16_fp8_swiglu_mlp_bf16(  # noqa: PLR0913, PLR0917 (as published)
    input: Tensor,  # noqa: A002 (as published)
    gate_up_weight: Tensor,
    down_weight: Tensor,
    input_scale: Tensor,
    gate_up_weight_scale: Tensor,
    hidden_scale: Tensor,
    down_weight_scale: Tensor,
    input_fp8: Tensor | None = None,
    gate_up_bf16: Tensor | None = None,
    hidden_fp8: Tensor | None = None,
    out: Tensor | None = None,
    *,
    pad_to: int | None = None,
) -> Tensor:
    """Return ``silu(gate) * up`` projected; rows of ``gate_up_weight`` are gate first."""
    operands = (input, gate_up_weight, down_weight)
    scales = (input_scale, gate_up_weight_scale, hidden_scale, down_weight_scale)
    return _block(SWIGLU, operands, scales, (input_fp8, gate_up_bf16, hidden_fp8, out), pad_to)


def bf16_fp8_geglu_mlp_bf16(  # noqa: PLR0913, PLR0917 (as published)
    input: Tensor,  # noqa: A002 (as published)
    gate_up_weight: Tensor,
    down_weight: Tensor,
    input_scale: Tensor,
    gate_up_weight_scale: Tensor,
    hidden_scale: Tensor,
    down_weight_scale: Tensor,
    input_fp8: Tensor | None = None,
    gate_up_bf16: Tensor | None = None,
    hidden_fp8: Tensor | None = None,
    out: Tensor | None = None,
    *,
    pad_to: int | None = None,
) -> Tensor:
    """Return ``gelu_tanh(gate) * up`` projected; rows of ``gate_up_weight`` are gate first."""
    operands = (input, gate_up_weight, down_weight)
    scales = (input_scale, gate_up_weight_scale, hidden_scale, down_weight_scale)
    return _block(GEGLU, operands, scales, (input_fp8, gate_up_bf16, hidden_fp8, out), pad_to)
