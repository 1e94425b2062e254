"""Linear layers over e4m3 codes and torch's scaled matmul, the same on a CPU and on GPUs that multiply e4m3."""

from .linear import ScaledLinear, fp8_linear, unsupported

__all__ = ["ScaledLinear", "fp8_linear", "unsupported"]
