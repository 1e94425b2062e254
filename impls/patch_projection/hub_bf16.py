"""bfloat16 throughout, by the published projection with its bias added before the sum is rounded."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from pytest_frt.impls._shared.hub_ops import find, unbindable  # type: ignore[import-not-found]
from pytest_frt.impls._shared.hub_parts import BF16_SUBNORMAL, HubOpOverNormals  # type: ignore[import-not-found]
from torch import nn

from pytest_frt.sdk import BindSeat, Impl, Refusal, Scales

OPS: Final = {"none": "bf16_linear_bf16", "add": "bf16_linear_bias_bf16"}


def bind(seat: BindSeat, scales: Scales, kernel: ModuleType) -> nn.Module | Refusal:
    """Turn the weight over: the op takes ``[K, N]``."""
    refusal: Refusal | None = unbindable(IMPL, seat, scales)
    if refusal is not None:
        return refusal
    op = find(IMPL, kernel, OPS[seat.variant["bias"]])
    if isinstance(op, Refusal):
        return op
    weight = nn.functional.hardshrink(seat.weights["w"].detach(), BF16_SUBNORMAL).t().contiguous()
    bias = [seat.weights["b"].detach().clone()] if seat.variant["bias"] == "add" else []
    part: nn.Module = HubOpOverNormals(op, (weight, *bias), seat.dims["N"])
    return part


IMPL = Impl(
    name="hub_bf16",
    structure="patch_projection",
    version=1,
    schemes=("bf16_structural",),
    kernel="flashrt/flashrt-gemm-epilogues",
    rows={"bf16_structural": (1, 6256)},
    variants={"bias": ("none", "add")},
    dims={"K": (16, 16384), "N": (16, 16384)},
    dtypes=("bfloat16",),
    devices=("cuda",),
)
