"""int8 weight-only layers for one to eight rows on CPU: compiled ops for AVX-512, AVX2 and any other CPU."""

from .layers import ACTIVATIONS, Int8Gated, Int8Linear, int8_feed_forward, int8_gated, int8_linear
from .ops import MAX_ROWS, PATHS, gated, linear, widest

__all__ = [
    "ACTIVATIONS",
    "MAX_ROWS",
    "PATHS",
    "Int8Gated",
    "Int8Linear",
    "gated",
    "int8_feed_forward",
    "int8_gated",
    "int8_linear",
    "linear",
    "widest",
]
