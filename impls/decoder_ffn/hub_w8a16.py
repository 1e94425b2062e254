"""int8 weights, bfloat16 activations by the published weight-only gated block, for one to eight rows."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import torch
from pytest_frt.impls._shared.hub_ops import find, unbindable  # type: ignore[import-not-found]
from pytest_frt.impls._shared.hub_parts import HubOpByRows  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

QUANTISE: Final = "quantize_w8_weight_bf16"
GATED: Final = {"gelu_tanh": "w8a16_geglu_ffn_bf16", "silu": "w8a16_swiglu_ffn_bf16"}
# What the package's own choice (variant 0) runs for up to four rows, which it refuses for weights that its authors did
# not find faster: here the timing gate says what pays.
VARIANTS: Final = {1: 3, 2: 2, 3: 2, 4: 2, 5: 3, 6: 3, 7: 3, 8: 3}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Quantise gate and up side by side, and down, by the package's own op."""
    refusal: Refusal | None = unbindable(IMPL, seat, scales)
    if refusal is not None:
        return refusal
    quantise = find(IMPL, kernel, QUANTISE)
    block = find(IMPL, kernel, GATED[seat.variant["activation"]], keywords=("variant",))
    for op in (quantise, block):
        if isinstance(op, Refusal):
            return op
    gate, up, down = (seat.weights[slot].detach().t() for slot in ("w_gate", "w_up", "w_down"))
    operands = (*quantise(torch.cat((gate, up))), *quantise(down.contiguous()))
    part: nn.Module = HubOpByRows(block, operands, seat.dims["D"], VARIANTS)
    return part


IMPL = Impl(
    name="hub_w8a16",
    structure="decoder_ffn",
    version=1,
    schemes=("w8a16_decode_bf16",),
    kernel="flashrt/weight-only-ffn",
    rows={"w8a16_decode_bf16": (1, 8)},
    variants={"activation": ("gelu_tanh", "silu"), "norm": ("none",), "residual": ("none",)},
    dims={"D": (512, 16384), "F": (1024, 16384)},
    multiples={"D": 64, "F": 64},
    dtypes=("bfloat16",),
    devices=("cuda",),
)
