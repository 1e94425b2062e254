"""``frt-scaled``: its numbers are the scheme's on every device that is here; what it cannot multiply is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from pytest_frt.schemes import fp8_static
from pytest_frt.seat import kernels

N, K, SCALE = 48, 32, 0.01
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT_SUPPORTED: no GPU")),
]


@pytest.fixture(scope="module")
def scaled() -> ModuleType:
    """Return the loaded kernel."""
    return kernels.load_build(kernels.resolve("pytest-frt/frt-scaled", backend="cpu"))


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [0, 1, 3, 17, 300])
@torch.no_grad()
def test_numbers_are_those_of_the_scheme(scaled: ModuleType, rows: int, device: str) -> None:
    pieces, biases, x = (
        [drawn(N, K), 3 * drawn(N, K, seed=1)],
        [drawn(N, seed=2), drawn(N, seed=3)],
        drawn(rows, K, seed=4),
    )
    layer = scaled.fp8_linear([w.to(device) for w in pieces], [b.to(device) for b in biases], input_scale=SCALE)
    wide = torch.cat([fp8_static.weight(piece, 0) for piece in pieces]).double()
    wanted = fp8_static.activation(x, SCALE).double() @ wide.T + torch.cat(biases).double()
    # Sums of 32 codes: a GPU may keep fewer bits of each.
    limit = 1e-6 if device == "cpu" else 1e-3
    torch.testing.assert_close(layer(x.to(device)).cpu().double(), wanted, rtol=limit, atol=limit * 10)


@torch.no_grad()
def test_large_inputs_saturate_and_nan_stays(scaled: ModuleType) -> None:
    layer = scaled.fp8_linear([torch.eye(K)], input_scale=SCALE)
    x = torch.zeros(1, K)
    x[0, :3] = torch.tensor([1e6, -1e6, torch.nan])
    assert layer(x).isnan().all()  # a NaN reaches its whole row
    x[0, 2] = 0
    assert layer(x)[0, :2].tolist() == pytest.approx([448 * SCALE, -448 * SCALE])


@torch.no_grad()
def test_leading_axes_are_free_and_memory_is_its_own(scaled: ModuleType) -> None:
    weight, x = drawn(N, K), drawn(2, 3, K)
    layer = scaled.fp8_linear([weight], input_scale=SCALE)
    first = layer(x)
    weight.zero_()
    assert first.shape == (2, 3, N)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer(x.reshape(6, K)), first.reshape(6, N))


@pytest.mark.parametrize(
    ("weight", "options", "fault"),
    [
        (torch.ones(N, K + 1), {}, "K = 33 is no multiple of 16"),
        (torch.ones(N + 8, K), {}, "N = 56 is no multiple of 16"),
        (torch.ones(N, K, dtype=torch.float64), {}, "must be float32"),
        (torch.full((N, K), torch.nan), {}, "holds NaN"),
        (torch.ones(N), {}, "no linear layer"),
        (torch.ones(N, K), {"input_scale": 0.0}, "no positive, finite"),
        (torch.ones(N, K), {"input_scale": 1e-45}, "no positive, finite"),
    ],
    ids=["odd_k", "odd_n", "dtype", "nan", "no_matrix", "zero_scale", "scale_without_reciprocal"],
)
def test_what_it_cannot_multiply_is_refused(
    scaled: ModuleType, weight: Tensor, options: dict[str, float], fault: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=fault):
        scaled.fp8_linear([weight], **{"input_scale": SCALE, **options})


@pytest.mark.parametrize(
    ("capability", "said"), [((8, 6), "fp8_linear needs a GPU of capability 8.9, this one has 8.6"), ((8, 9), "")]
)
def test_old_gpu_is_told(
    scaled: ModuleType, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], said: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert scaled.unsupported("fp8_linear") == said


@torch.no_grad()
def test_other_width_is_an_error(scaled: ModuleType) -> None:
    layer: Callable[[Tensor], Tensor] = scaled.fp8_linear([drawn(N, K)], input_scale=SCALE)
    with pytest.raises(ValueError, match="takes 32 features, got 31"):
        layer(drawn(2, K - 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
@torch.no_grad()
def test_other_dtype_is_an_error(scaled: ModuleType, dtype: torch.dtype) -> None:
    layer: Callable[[Tensor], Tensor] = scaled.fp8_linear([drawn(N, K)], input_scale=SCALE)
    with pytest.raises(TypeError, match=f"takes float32, got {dtype}"):
        layer(drawn(2, K).to(dtype))


def test_gradient_is_an_error(scaled: ModuleType) -> None:
    layer: Callable[[Tensor], Tensor] = scaled.fp8_linear([drawn(N, K)], input_scale=SCALE)
    with pytest.raises(RuntimeError, match="no gradient"):
        layer(drawn(2, K).requires_grad_())


@pytest.mark.parametrize("device", DEVICES[1:])
@torch.no_grad()
def test_codes_and_scales_are_those_of_a_cpu(scaled: ModuleType, device: str) -> None:
    weights = [factor * drawn(N, K, seed=seed) for seed, factor in enumerate((1.0, 1e-3, 37.0))]
    here = scaled.fp8_linear(weights, input_scale=SCALE)
    there = scaled.fp8_linear([weight.to(device) for weight in weights], input_scale=SCALE)
    assert torch.equal(here._channel, there._channel.cpu())
    assert torch.equal(here._codes.view(torch.uint8), there._codes.view(torch.uint8).cpu())
