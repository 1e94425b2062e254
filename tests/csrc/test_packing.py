"""What a layer cannot hold it refuses when it packs, with the number; and packing leaves the process as it was."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from torch import Tensor

from pytest_frt.schemes import w8a8_dynamic

from .conftest import K, Layer, N


@pytest.mark.parametrize("bad", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_weight_that_is_not_finite_is_refused(
    kernel: ModuleType, layer: Layer, weights: list[Tensor], bad: float
) -> None:
    weights[1][3, 3] = bad
    with pytest.raises(ValueError, match="the weight holds NaN or Inf"):
        layer.build(kernel, weights, [])


def test_bias_of_another_size_is_refused(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    with pytest.raises(ValueError, match="no linear layer"):
        layer.build(kernel, weights, [torch.zeros(N - 1)])


def test_weight_of_another_dtype_is_refused(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    with pytest.raises(TypeError, match=r"must be float32 on cpu, got torch\.float64"):
        layer.build(kernel, [piece.double() for piece in weights], [])


def test_weight_beyond_float16_is_refused_and_left_alone(kernel: ModuleType, weights: list[Tensor]) -> None:
    weights[0][0, 0] = 1e6
    with pytest.raises(ValueError, match=r"1000000\.0 is over 65504"):
        kernel.fp16_linear(weights)
    assert weights[0][0, 0] == 1e6


def test_weight_only_int8_reads_whole_groups_of_16(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="K = 33 is no multiple of 16"):
        kernel.int8_linear([torch.randn(8, 33)])


@pytest.mark.parametrize(
    ("shape", "words"),
    [((24, 32), "N = 24 is no multiple of 16"), ((16, 48), "K = 48 is no multiple of 32"), ((16, 33), "K = 33")],
    ids=str,
)
def test_int4_reads_whole_groups_of_whole_blocks(kernel: ModuleType, shape: tuple[int, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kernel.int4_linear([torch.randn(shape)])


@pytest.mark.parametrize(("layer", "largest"), [("int4_linear", 2e38), ("bf16_linear", 3.4e38)])
def test_weight_that_would_round_to_infinity_is_refused(
    kernel: ModuleType, weights: list[Tensor], layer: str, largest: float
) -> None:
    weights[0][0, 0] = -largest
    with pytest.raises(ValueError, match=r"the largest weight .*e\+38 is over"):
        getattr(kernel, layer)(weights)


def test_int4_codes_of_a_group_span_it_and_zero(kernel: ModuleType) -> None:
    weight = torch.zeros(1, 96)
    weight[0, :3] = torch.tensor([-16.0, 14.0, 5.0])  # step 2, levels -16 to 14
    weight[0, 32:34] = torch.tensor([15.0, 4.0])  # step 1, levels 0 to 15
    codes, scale, zero = kernel.quantize.int4_groups(weight)
    assert [*codes[0, :4], *codes[0, 32:35], *codes[0, 64:66]] == [0, 15, 10, 8, 15, 4, 0, 0, 0]
    assert (scale.tolist(), zero.tolist()) == ([[2, 1, 1]], [[0, 8, 8]])


@pytest.mark.parametrize("size", [1e-36, 1e-3, 1e36], ids=str)
def test_int4_sums_stay_among_normal_numbers(kernel: ModuleType, size: float) -> None:
    x = torch.ones(1, 32) / size**0.5
    got = kernel.int4_linear([torch.full((16, 32), size)])(x)
    assert torch.allclose(got, torch.full((1, 16), 32 * size**0.5), rtol=2.0**-7)


def test_bfloat16_takes_subnormal_inputs_for_zero(kernel: ModuleType) -> None:
    x = torch.tensor([2.0**-126, 2.0**-127]).repeat_interleave(16).view(2, 16)
    got = kernel.bf16_linear([torch.eye(16)])(x)
    assert got.tolist() == [[2.0**-126] * 16, [0.0] * 16]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-45], ids=str)
def test_input_scale_without_a_reciprocal_is_refused(kernel: ModuleType, weights: list[Tensor], scale: float) -> None:
    with pytest.raises(ValueError, match="reciprocal"):
        kernel.fp8_linear(weights, input_scale=scale)


def test_row_of_zeros_packs(kernel: ModuleType, layer: Layer, weights: list[Tensor]) -> None:
    weights[0][3] = 0
    got = layer.build(kernel, weights, [])(torch.randn(2, K))
    assert (got[:, 3] == 0).all()


def test_packing_follows_no_preferred_engine_and_restores_it(
    kernel: ModuleType, weights: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(5, K)
    before = kernel.dynamic_int8_linear(weights)(x), kernel.fp16_linear(weights)(x)
    monkeypatch.setattr(torch.backends.quantized, "engine", "onednn")
    after = kernel.dynamic_int8_linear(weights)(x), kernel.fp16_linear(weights)(x)
    assert torch.backends.quantized.engine == "onednn"
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_missing_engine_is_named(kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.support, "ENGINE", "qnnpack")
    monkeypatch.setattr(kernel.support, "_NEEDS", {"fp16_linear": "qnnpack"})
    monkeypatch.setattr(
        torch.backends.quantized.__class__, "supported_engines", property(lambda _: ["none"]), raising=False
    )
    assert kernel.support.unsupported("fp16_linear").startswith("fp16_linear needs torch with qnnpack")


RANGES = {
    "both_signs": lambda: torch.randn(4, 16),
    "positive": lambda: torch.rand(4, 16),
    "negative": lambda: -torch.rand(4, 16),
    "zeros": lambda: torch.zeros(4, 16),
    "constant": lambda: torch.full((4, 16), 3.0),
    "below_the_smallest_scale": lambda: torch.randn(4, 16) * 1e-4,
    "positive_below_it": lambda: torch.rand(4, 16) * 1e-4,
    "negative_below_it": lambda: -torch.rand(4, 16) * 1e-4,
    "vanishing": lambda: torch.randn(4, 16) * 1e-30,
    "large": lambda: torch.randn(4, 16) * 1e30,
    "half_codes_on_an_odd_zero_point": lambda: torch.tensor([[-1.0, 126.0] + [n + 0.5 for n in range(14)]]),
}


@pytest.mark.parametrize("draw", RANGES.values(), ids=RANGES)
def test_dynamic_codes_are_the_schemes_codes(kernel: ModuleType, draw: object) -> None:
    x: Tensor = draw()  # type: ignore[operator]
    # 127 on the diagonal packs to code 127 with scale 1: what comes out is the activation as it was quantised, x 127.
    got = kernel.dynamic_int8_linear([127 * torch.eye(16)])(x)
    want = w8a8_dynamic.activation(x.double(), None) * 127
    assert torch.allclose(got.double(), want, rtol=1e-6, atol=0)
