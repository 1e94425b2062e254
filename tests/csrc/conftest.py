"""The CPU kernel, loaded once, and what its layers are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.contracts.scheme import Scheme
from pytest_frt.schemes import bf16_structural, fp8_static, none, w4a16_decode, w8a8_dynamic, w8a16_decode, w16a32
from pytest_frt.seat import kernels

N, K = 48, 32
SCALE = 4.0 / 448


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the kernel, the scheme it runs, and how far its result may lie from it (relative L2)."""

    build: Callable[[ModuleType, list[Tensor], list[Tensor]], nn.Module]
    scheme: Scheme
    tolerance: float
    scale: float | None = None


LAYERS = {
    "plain": Layer(lambda k, w, b: k.plain_linear(w, b), none.SCHEME, 1e-6),
    "table": Layer(lambda k, w, b: k.table_linear(w, b), none.SCHEME, 1e-6),
    "kept": Layer(lambda k, w, b: k.kept_linear(w, b), none.SCHEME, 1e-6),
    "fp32": Layer(lambda k, w, b: k.fp32_linear(w, b, rows=8), none.SCHEME, 1e-6),
    "fp16": Layer(lambda k, w, b: k.fp16_linear(w, b), w16a32.SCHEME, 1e-6),
    # The sums leave as bfloat16, rounded by up to 2**-9 of themselves; biases may cancel up to half of them.
    "w8": Layer(lambda k, w, b: k.int8_linear(w, b), w8a16_decode.SCHEME, 2.0**-8),
    "w4": Layer(lambda k, w, b: k.int4_linear(w, b), w4a16_decode.SCHEME, 2.0**-8),
    "bf16": Layer(lambda k, w, b: k.bf16_linear(w, b), bf16_structural.SCHEME, 2.0**-8),
    "dyn8": Layer(lambda k, w, b: k.dynamic_int8_linear(w, b), w8a8_dynamic.SCHEME, 1e-6),
    "fp8": Layer(lambda k, w, b: k.fp8_linear(w, b, input_scale=SCALE), fp8_static.SCHEME, 1e-6, SCALE),
}


@pytest.fixture(scope="session")
def kernel() -> ModuleType:
    """Return the loaded kernel."""
    return kernels.load_build(kernels.resolve("pytest-frt/frt-cpu", backend="cpu"))


@pytest.fixture(params=LAYERS.values(), ids=list(LAYERS))
def layer(request: pytest.FixtureRequest) -> Layer:
    """Return each layer in turn."""
    chosen: Layer = request.param
    return chosen


@pytest.fixture
def weights() -> list[Tensor]:
    """Return two pieces ``[N_i, K]``."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(N - 16, K, generator=generator), 3 * torch.randn(16, K, generator=generator)]


@pytest.fixture
def biases() -> list[Tensor]:
    """Return two pieces ``[N_i]``."""
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(N - 16, generator=generator), torch.randn(16, generator=generator)]


def expected(layer: Layer, x: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """Return the scheme's own result in float64."""
    weight = torch.cat([layer.scheme.weight(piece.double(), 0) for piece in weights])
    return layer.scheme.activation(x.double(), layer.scale) @ weight.t() + torch.cat(biases)


def error(got: Tensor, want: Tensor) -> float:
    """Return the relative L2 error; NaN stays NaN."""
    return float((got.double() - want).norm() / want.norm())
