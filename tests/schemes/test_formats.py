"""The fake quantisers keep exactly what each format keeps."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.scheme import Scheme
from pytest_frt.errors import SpecError
from pytest_frt.schemes import (
    bf16_structural,
    fp8_static,
    fp8_static_keep_outliers,
    none,
    w4a16_decode,
    w8a8_dynamic,
    w8a16_decode,
    w16a32,
)

SCHEMES = [
    none.SCHEME,
    w16a32.SCHEME,
    bf16_structural.SCHEME,
    w8a16_decode.SCHEME,
    w4a16_decode.SCHEME,
    w8a8_dynamic.SCHEME,
    fp8_static.SCHEME,
    fp8_static_keep_outliers.SCHEME,
]


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (2049.0, 2048.0),
        (2051.0, 2052.0),
        (2.0**-24, 2.0**-24),
        (2.0**-25, 0.0),
        (3 * 2.0**-26, 2.0**-24),
        (65519.0, 65504.0),
        (1e6, 65504.0),
        (-1e6, -65504.0),
    ],
    ids=["tie_down", "tie_up", "subnormal", "below_subnormal", "round_to_subnormal", "top", "over", "under"],
)
def test_half_weights(value: float, kept: float) -> None:
    assert w16a32.weight(f64(value), 0).item() == kept


@pytest.mark.parametrize(("axis", "channel"), [(0, (1, slice(None))), (1, (slice(None), 1)), (-1, (slice(None), 1))])
def test_int8_scale_is_per_output_channel(axis: int, channel: tuple[int | slice, ...]) -> None:
    w = torch.randn(8, 8, dtype=torch.float64)
    before = w8a16_decode.weight(w, axis)
    w[channel] *= 1000
    changed = (w8a16_decode.weight(w, axis) != before).nonzero()
    assert set(changed[:, axis % 2].tolist()) == {1}


def test_int8_rounds_half_to_even_and_keeps_both_ends() -> None:
    kept = w8a16_decode.weight(f64(127, -127, 0.5, 1.5, 2.5, -2.5).view(1, 6), 0)
    assert kept.tolist() == [[127, -127, 0, 2, 2, -2]]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((-16.0, 14.0, 5.1, 0.9, 0.0), (-16, 14, 6, 0, 0)),
        ((15.0, 4.4, 4.6, 0.0), (15, 4, 5, 0)),
        ((-15.0, -4.4, -4.6, 0.0), (-15, -4, -5, 0)),
        ((-3.0, 12.0, 3.0, 5.2, 7.0), (-3, 12, 3, 5, 7)),
    ],
    ids=["both_signs", "positive", "negative", "odd_zero_point"],
)
def test_int4_levels_span_a_group_and_zero(given: tuple[float, ...], kept: tuple[float, ...]) -> None:
    assert w4a16_decode.weight(f64(*given).view(1, -1), 0).tolist() == [list(kept)]


def test_int4_levels_of_a_full_group_reach_down_to_zero() -> None:
    w = torch.linspace(10, 15, 32, dtype=torch.float64).view(1, -1)
    assert torch.equal(w4a16_decode.weight(w, 0), w.round())


def test_int4_zero_is_exact_where_no_number_is_negative() -> None:
    assert w4a16_decode.weight(f64(10.0, 0.0).view(1, -1), 0)[0, 1] == 0


@pytest.mark.parametrize("place", [0, 31, 32, 63, 64, 69], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_int4_group_is_32_inputs_of_one_output_channel(place: int, axis: int) -> None:
    w = torch.randn(3, 70, dtype=torch.float64)
    before = w4a16_decode.weight(w if axis == 0 else w.t(), axis)
    w[1, place] = 1000.0
    changed = w4a16_decode.weight(w if axis == 0 else w.t(), axis) != before
    rows, columns = (changed if axis == 0 else changed.t()).nonzero(as_tuple=True)
    assert set(rows.tolist()) == {1}
    assert {column // 32 for column in columns.tolist()} == {place // 32}


def test_int4_scale_and_zero_point_are_bfloat16() -> None:
    low, high = w4a16_decode.weight(f64(-1.0, 0.3).view(1, -1), 0)[0]
    step = (high - low) / 15
    for kept in (step, low + 8 * step):
        assert kept.bfloat16().double() == kept


def test_subnormal_bfloat16_is_zero_where_projections_are_merged() -> None:
    assert bf16_structural.activation(f64(2.0**-126, 2.0**-127, -(2.0**-130)), None).tolist() == [2.0**-126, 0, 0]
    assert w4a16_decode.activation(f64(2.0**-127), None).item() == 2.0**-127


def test_keeping_outliers_changes_no_number() -> None:
    x = torch.randn(5, 7)
    one, other = fp8_static.SCHEME, fp8_static_keep_outliers.SCHEME
    assert torch.equal(one.activation(x, 0.01), other.activation(x, 0.01))
    assert torch.equal(one.weight(x, 0), other.weight(x, 0))
    assert (one.limits, one.percentile, one.format_max) == (other.limits, other.percentile, other.format_max)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_zeros_stay_zeros(scheme: Scheme) -> None:
    zeros = torch.zeros(3, 4, dtype=torch.float64)
    assert torch.equal(scheme.weight(zeros, 0), zeros)
    assert torch.equal(scheme.activation(zeros, 1.0), zeros)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_quantising_again_changes_nothing(scheme: Scheme) -> None:
    once = scheme.weight(torch.randn(8, 8), 0)
    assert torch.allclose(scheme.weight(once, 0), once, rtol=1e-6)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_shape_dtype_and_argument_are_kept(scheme: Scheme, dtype: torch.dtype) -> None:
    x = torch.randn(2, 0, 3, dtype=dtype), torch.randn(2, 5, dtype=dtype)
    for tensor in x:
        before = tensor.clone()
        got = scheme.activation(tensor, 0.1)
        assert (got.shape, got.dtype) == (tensor.shape, dtype)
        assert torch.equal(tensor, before)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_nan_is_not_lost(scheme: Scheme) -> None:
    assert scheme.activation(f64(1, math.nan), 1.0)[1].isnan()


def test_bfloat16_rounds_the_float32_value() -> None:
    assert w8a16_decode.activation(f64(1 + 2.0**-9, 1 + 3 * 2.0**-9), None).tolist() == [1.0, 1 + 2.0**-7]


def test_what_float32_cannot_hold_becomes_zero() -> None:
    assert none.activation(f64(1e-78, 1.0), None).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero"),
    [
        (-1.0, 126.0, 1.0, 1),
        (0.0, 127.0, 1.0, 0),
        (5.0, 127.0, 1.0, 0),
        (-127.0, 0.0, 1.0, 127),
        (0.0, 0.0, 0.1, 0),
        (0.0, 1e-4, w8a8_dynamic.SMALLEST_SCALE, 0),
        (-1e-4, 0.0, w8a8_dynamic.SMALLEST_SCALE, 127),
    ],
    ids=["both", "positive", "offset", "negative", "zeros", "small", "small_negative"],
)
def test_dynamic_range_includes_zero(low: float, high: float, scale: float, zero: int) -> None:
    step, at = w8a8_dynamic.parameters(low, high)
    assert (step, at) == (torch.tensor(scale).item(), zero)


def test_dynamic_scale_is_shared_by_all_rows() -> None:
    x = torch.ones(2, 4, dtype=torch.float64)
    alone = w8a8_dynamic.activation(x[:1] * 0.3, None)
    x[0] *= 0.3
    x[1] *= 100
    assert not torch.equal(w8a8_dynamic.activation(x, None)[:1], alone)


def test_e4m3_clamps_and_rounds_half_to_even() -> None:
    assert fp8_static.activation(f64(1000, -1000, 17, 19), 1.0).tolist() == [448, -448, 16, 20]


def test_e4m3_scale_follows_the_slot() -> None:
    assert fp8_static.weight(f64(896, 34, 38).view(1, 3), 0).tolist() == [[896, 32, 40]]


def test_static_scheme_without_a_scale_is_refused() -> None:
    with pytest.raises(SpecError, match="calibrated scale"):
        fp8_static.activation(f64(1), None)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_limits_name_a_section_that_exists(scheme: Scheme, repository: Path) -> None:
    reasons = [scheme.limits.because, *([scheme.ceiling.because] if scheme.ceiling else [])]
    for place, _, section in (reason.rpartition(": ")[2].partition("#") for reason in reasons):
        text = (repository / place).read_text()
        headings = [line[3:].strip().lower().replace(" ", "-") for line in text.splitlines() if line.startswith("## ")]
        assert section in headings


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_scheme_says_whether_a_row_is_quantised_by_itself(scheme: Scheme) -> None:
    rows = torch.tensor([[0.11, -0.23, 0.37], [70.0, -41.3, 5.9], [0.0, 0.0, 0.0]], dtype=torch.float64)
    alone = torch.cat([scheme.activation(row, 0.25) for row in rows.split(1)])
    assert torch.equal(scheme.activation(rows, 0.25), alone) is not scheme.per_call
