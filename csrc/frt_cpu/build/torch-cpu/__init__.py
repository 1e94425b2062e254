"""Linear layers over packed or short weights and layer norms for CPU; each is one op that torch.compile keeps whole."""

from .linear import (
    PackedLinear,
    bf16_linear,
    dynamic_int8_linear,
    fp8_linear,
    fp16_linear,
    fp32_linear,
    int4_linear,
    int8_linear,
    kept_linear,
    plain_linear,
    table_linear,
)
from .norm import HeldNorm, layer_norm
from .support import unsupported

__all__ = [
    "HeldNorm",
    "PackedLinear",
    "bf16_linear",
    "dynamic_int8_linear",
    "fp8_linear",
    "fp16_linear",
    "fp32_linear",
    "int4_linear",
    "int8_linear",
    "kept_linear",
    "layer_norm",
    "plain_linear",
    "table_linear",
    "unsupported",
]
