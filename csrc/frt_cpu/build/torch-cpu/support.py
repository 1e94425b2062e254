"""Which ops this build of torch can run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

ENGINE: Final = "fbgemm"
_NEEDS: Final = {
    "plain_linear": "",
    "table_linear": "",
    "kept_linear": "",
    "fp32_linear": "onednn",
    "fp16_linear": ENGINE,
    "int8_linear": "",
    "dynamic_int8_linear": ENGINE,
    "fp8_linear": "",
    "layer_norm": "",
    "int4_linear": "",
    "bf16_linear": "",
}


def unsupported(layer: str) -> str:
    """Return why a layer of this kernel cannot be built here, or an empty string.

    Raises:
        KeyError: there is no such layer.
    """
    need = _NEEDS[layer]
    if need == ENGINE and ENGINE not in torch.backends.quantized.supported_engines:
        return f"{layer} needs torch with {ENGINE}; this one has {torch.backends.quantized.supported_engines}"
    if need == "onednn" and not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return f"{layer} needs torch with oneDNN"
    return ""


@contextmanager
def packing_engine() -> Iterator[None]:
    """Pack with FBGEMM whatever engine the process prefers: another engine would give other numbers."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
