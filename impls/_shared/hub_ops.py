"""Ops of published packages: found by name, and bound only where they take what they took when impls were written."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final, cast

import torch
from torch import Tensor

from pytest_frt.sdk import BindSeat, Impl, KernelUnavailable, Refusal, Scales

from .seat_envelope import outside_envelope, refuse

Op = Callable[..., Tensor]

_GATED: Final = (
    "input", "gate_up_weight", "down_weight",
    "input_scale", "gate_up_weight_scale", "hidden_scale", "down_weight_scale",
)  # fmt: skip
_TWO_LAYER: Final = (
    "input", "up_weight", "up_bias", "down_weight", "down_bias",
    "input_scale", "up_weight_scale", "hidden_scale", "down_weight_scale",
)  # fmt: skip
_WEIGHT_ONLY: Final = ("x", "gate_up_weight", "gate_up_scale", "down_weight", "down_scale")
PUBLISHED: Final[Mapping[str, tuple[str, ...]]] = {
    "bf16_fp8_geglu_mlp_bf16": _GATED,
    "bf16_fp8_swiglu_mlp_bf16": _GATED,
    "bf16_fp8_gelu_mlp_bf16": _TWO_LAYER,
    "bf16_fp8_gelu_mlp_v2_bf16": _TWO_LAYER,
    "bf16_fp8_linear_bias_bf16": ("input", "weight", "bias", "input_scale", "weight_scale"),
    "quantize_w8_weight_bf16": ("weight",),
    "w8a16_geglu_ffn_bf16": _WEIGHT_ONLY,
    "w8a16_swiglu_ffn_bf16": _WEIGHT_ONLY,
    "bf16_linear_bf16": ("x", "w"),
    "bf16_linear_bias_bf16": ("x", "w", "bias"),
    "layer_norm_bf16": ("x", "weight", "bias", "eps"),
}
"""Op to its leading arguments, as published. Scales are one-element tensors: two of them exchanged would go unseen."""


def unbindable(impl: Impl, seat: BindSeat, scales: Scales) -> Refusal | None:
    """Return why a published package cannot take a seat, or None.

    Beside what ``outside_envelope`` tells: ``dtype``, a slot that is not bfloat16, since these ops round no operand
    themselves; ``device``, a build of torch for another vendor, whose FP8 is another format.
    """
    if (refusal := outside_envelope(impl, seat, scales)) is not None:
        return refusal
    for slot, tensor in seat.weights.items():
        if tensor.dtype != torch.bfloat16:
            return refuse("dtype", f"slot {slot} is {str(tensor.dtype)[6:]}, {impl.name} takes bfloat16")
    if torch.version.hip is not None:
        return refuse("device", f"this torch is built for ROCm {torch.version.hip}, {impl.name} was written for CUDA")
    return None


def find(impl: Impl, kernel: ModuleType, *names: str, keywords: tuple[str, ...] = ()) -> Op | Refusal:
    """Return the first of several ops that the package has, or a refusal (``signature``) if it takes something else.

    Args:
        impl: The impl that binds.
        kernel: The loaded package.
        names: Ops of one meaning, the best first.
        keywords: What is passed by name.

    Raises:
        KernelUnavailable: the package has none of them.
    """
    name = next((one for one in names if hasattr(kernel, one)), None)
    if name is None:
        raise KernelUnavailable(
            f"{impl.kernel}: this build has no op {' or '.join(names)}", hint="fetch or build a release that has it"
        )
    op, wanted = getattr(kernel, name), PUBLISHED[name]
    if (found := _mismatch(op, wanted, keywords)) is not None:
        named = "".join(f", {one}=" for one in keywords)
        return refuse(
            "signature", f"{impl.kernel}: {name} takes {found}, {impl.name} calls ({', '.join(wanted)}{named})"
        )
    return cast("Op", op)


def _mismatch(op: object, wanted: tuple[str, ...], keywords: tuple[str, ...]) -> str | None:
    """Return what an op takes where that is not what is passed; None where it is."""
    if not callable(op):
        return f"nothing: it is a {type(op).__name__}"
    try:
        signature = inspect.signature(op)
    except ValueError:  # compiled functions need not have one
        return "what it does not say"
    by_place = [
        one.name
        for one in signature.parameters.values()
        if one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}
    ]
    try:
        signature.bind(*wanted, **dict.fromkeys(keywords))
    except TypeError:
        return str(signature)
    return None if tuple(by_place[: len(wanted)]) == wanted else str(signature)
