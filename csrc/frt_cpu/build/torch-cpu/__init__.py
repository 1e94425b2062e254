"""Linear layers over packed, half, int8 and FP8 weights for CPU; each is one op that torch.compile keeps whole."""

from .linear import (
    PackedLinear,
    dynamic_int8_linear,
    fp8_linear,
    fp16_linear,
    fp32_linear,
    int8_linear,
    plain_linear,
    table_linear,
)
from .support import unsupported

__all__ = [
    "PackedLinear",
    "dynamic_int8_linear",
    "fp8_linear",
    "fp16_linear",
    "fp32_linear",
    "int8_linear",
    "plain_linear",
    "table_linear",
    "unsupported",
]
