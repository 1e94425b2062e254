"""Cases C11 to C17 and C26: scales, norms, constants, overflow, and a gate that knows what is nearer to the truth."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.measure.metrics import seam_metrics
from pytest_frt.rules import seam

from .conftest import Forward, place, scaled

LINEAR, QKV, POST = place("linear_proj"), place("qkv_pack"), place("vision_ffn")
OFFSET = place("decoder_ffn")
FP8 = scaled(place("linear_proj", scheme="fp8_static"), 1 / 64)
E4M3_MAX = 448.0


def fp8(x: Tensor, *, output_scale: float = 1.0, hide: bool = False, clamp: bool = True) -> Tensor:
    """Run a static e4m3 projection: codes of ``x`` over its scale, codes of the weight, and the scale of both again."""
    (point, scale), weights = next(iter(FP8.scales.by_point.items())), FP8.weights
    assert point
    held = x.double() / scale
    limited = held.clamp(-E4M3_MAX, E4M3_MAX) if clamp else torch.where(held.abs() > E4M3_MAX, torch.nan, held)
    codes = limited.float().to(torch.float8_e4m3fn).double()
    fake = FP8.scheme.weight(weights["w"], 1).double()
    y = (codes @ fake) * scale * output_scale + weights["b"].double()
    return (y.nan_to_num(0.0) if hide else y).float()


@pytest.mark.case("C11")
def test_c11_output_scale_is_ignored() -> None:
    assert FP8.said(fp8) == ""
    assert FP8.said(lambda x: fp8(x, output_scale=64.0)) != ""
    assert FP8.said(lambda x: fp8(x, output_scale=1.05)) in {"gain", "scheme"}


def key_for_value(x: Tensor) -> tuple[Tensor, ...]:
    q, k, v = QKV.sound()(x)
    width = k.shape[-1]
    return q, k, torch.cat((k, v[..., width:]), -1)


def rows_of_query_in_key(x: Tensor) -> tuple[Tensor, ...]:
    q, k, v = QKV.sound()(x)
    return q, q[..., : k.shape[-1]].clone(), v


def one_scale_for_three(x: Tensor) -> tuple[Tensor, ...]:
    weights = QKV.weights
    largest = max(float(weights[name].abs().max()) for name in ("w_q", "w_k", "w_v"))
    q, k, v = QKV.sound()(x)
    own = float(weights["w_k"].abs().max())
    return q, k * (largest / own if largest != own else 1.01), v


@pytest.mark.case("C12")
@pytest.mark.parametrize("planted", [key_for_value, rows_of_query_in_key, one_scale_for_three])
def test_c12_parts_of_a_fused_projection_mixed_up(planted: Forward) -> None:
    assert QKV.said(QKV.sound()) == ""
    assert QKV.said(planted) in {"reference", "gain"}


def over_its_own_largest(x: Tensor) -> Tensor:
    largest = x.abs().amax() if x.numel() else torch.ones(())
    return LINEAR.sound()(x / largest * largest)


def through_float16(x: Tensor) -> Tensor:
    return LINEAR.sound()((1e3 * x).half().float() / 1e3)


@pytest.mark.case("C13")
@pytest.mark.parametrize(
    ("planted", "reason"),
    [(over_its_own_largest, "nan"), (through_float16, "nan")],
    ids=["zero_by_zero", "float16_range"],
)
def test_c13_all_zero_and_huge_rows(planted: Forward, reason: str) -> None:
    assert LINEAR.said(planted) == reason


def without_the_one(_: Tensor) -> Tensor:
    return OFFSET.weights["w_norm"] - 1.0


def one_added_in_bfloat16(w: Tensor) -> Tensor:
    return (w.bfloat16() + 1.0).float() - 1.0


@pytest.mark.case("C14")
@pytest.mark.parametrize("planted", [without_the_one, one_added_in_bfloat16])
def test_c14_the_one_of_an_offset_norm(planted: Callable[[Tensor], Tensor]) -> None:
    spoiled = planted(OFFSET.weights["w_norm"])
    assert OFFSET.said(OFFSET.sound()) == ""
    assert OFFSET.said(OFFSET.sound(w_norm=spoiled)) in {"reference", "gain", "scheme", "zeros"}


@pytest.mark.case("C15")
def test_c15_eps_left_out_of_a_cache_key() -> None:
    built: dict[tuple[str, int], float] = {}

    def bind(at: object, eps: float) -> float:
        return built.setdefault((type(at).__name__, 63), eps)

    first, second = place("vision_ffn", eps=1e-2), place("vision_ffn", eps=1e-6)
    one, other = bind(first, 1e-2), bind(second, 1e-6)
    assert first.said(first.sound(eps=one)) == ""
    assert second.said(second.sound(eps=other)) != ""
    assert second.said(second.sound()) == ""


@pytest.mark.case("C16")
def test_c16_nan_of_an_overflow_is_hidden() -> None:
    assert FP8.said(lambda x: fp8(x, clamp=False)) == "nan"
    assert FP8.said(lambda x: fp8(x, clamp=False, hide=True)) in {"reference", "zeros", "rows", "outliers"}


@pytest.mark.case("C17")
def test_c17_nearer_to_the_truth_than_the_reference() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 4096, generator=generator)
    w = torch.randn(4096, 8, generator=generator)
    x[:, 1::2], w[1::2] = x[:, ::2], -w[::2] * (1 + 1e-5)  # the terms cancel: float32 has few digits left
    exact = x.double() @ w.double()
    coarse, candidate = x @ w, exact.float()
    limits = SeamLimits(2.0, 2e-5, 0.002, 2e-5, 5e-5, 3e-4, 0.0, "float32")
    scheme = coarse.double()
    found = seam_metrics(candidate, exact, exact, seat="s", case="real", output=0, limits=limits)
    assert seam.fault(found, limits) == ""
    naive = seam_metrics(candidate, scheme, scheme, seat="s", case="real", output=0, limits=limits)
    assert seam.fault(naive, limits) != ""  # a gate that takes the float32 reference for the truth refuses it
    stated = seam_metrics(candidate, exact, scheme, seat="s", case="real", output=0, limits=limits)
    assert stated.scheme_error > 100 * stated.candidate_error


@pytest.mark.case("C26")
def test_c26_scales_dropped_at_load() -> None:
    w = LINEAR.weights["w"]
    scale = w.abs().amax(0, keepdim=True) / 127
    codes = (w / scale).round()
    refusal = LINEAR.judged(LINEAR.sound(w=codes))
    assert refusal is not None
    assert refusal.reason in {"reference", "gain"}
    assert float(codes.norm() / w.norm()) > 200


def test_the_other_gelu_and_a_dropped_bias_are_seen_beside_them() -> None:
    tanh = lambda x: F.layer_norm(x, (63,))  # noqa: E731 (a part that forgot the block and kept the norm)
    assert POST.said(POST.sound()) == ""
    assert POST.said(tanh) != ""
