"""Linear layers over packed, 16-bit, int8, int4 and FP8 weights for CPU; each is one op torch.compile keeps whole."""

from .linear import (
    PackedLinear,
    bf16_linear,
    dynamic_int8_linear,
    fp8_linear,
    fp16_linear,
    fp32_linear,
    int4_linear,
    int8_linear,
    plain_linear,
)
from .support import unsupported

__all__ = [
    "PackedLinear",
    "bf16_linear",
    "dynamic_int8_linear",
    "fp8_linear",
    "fp16_linear",
    "fp32_linear",
    "int4_linear",
    "int8_linear",
    "plain_linear",
    "unsupported",
]
