"""Binding: seats outside the envelope are refused with the number; a bound part holds nothing of the host's."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.errors import KernelUnavailable

from .conftest import Unit, make_unit, outputs


def test_part_owns_no_parameter_no_buffer_and_no_host_tensor(unit: Unit) -> None:
    own = {name: tensor.clone() for name, tensor in unit.seat.weights.items()}
    alive = [weakref.ref(tensor) for tensor in own.values()]
    part = unit.bind(replace(unit.seat, weights=own))
    assert not [*part.parameters(), *part.buffers(), *part.state_dict()]
    del own
    assert not [reference for reference in alive if reference() is not None]


def test_bind_leaves_the_weights_as_they_were(unit: Unit) -> None:
    before = {name: tensor.clone() for name, tensor in unit.seat.weights.items()}
    unit.bind()
    assert all(torch.equal(tensor, before[name]) for name, tensor in unit.seat.weights.items())


def test_bind_of_parameters_keeps_no_graph(unit: Unit) -> None:
    weights = {name: tensor.clone().requires_grad_() for name, tensor in unit.seat.weights.items()}
    part = unit.bind(replace(unit.seat, weights=weights))
    assert not any(y.requires_grad for y in outputs(part(unit.rows(4))))


@torch.no_grad()
def test_part_compiles_whole(unit: Unit) -> None:
    part, x = unit.bind(), unit.rows(5)
    torch.compiler.reset()
    compiled = torch.compile(part, fullgraph=True, backend="aot_eager")
    assert all(torch.equal(a, b) for a, b in zip(outputs(compiled(x)), outputs(part(x)), strict=True))


@torch.no_grad()
def test_outputs_are_contiguous_and_may_be_written_to(unit: Unit) -> None:
    part, x = unit.bind(), unit.rows(4)
    first = outputs(part(x))
    kept = [y.clone() for y in first]
    assert all(y.is_contiguous() for y in first)
    for y in first:
        y.add_(1)
    assert all(torch.equal(a, b) for a, b in zip(outputs(part(x)), kept, strict=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: {"dtype": "bfloat16"}, "dtype is 'bfloat16'"),
        (lambda _: {"rows": (0, 4)}, "called with 0 to 4 rows"),
        (lambda _: {"rows": (1, 9000)}, "called with 1 to 9000 rows"),
        (lambda _: {"scheme": "w4a4"}, "scheme is 'w4a4'"),
        (lambda _: {"structure": "norm"}, "structure is 'norm'"),
        (lambda unit: {"variant": dict.fromkeys(unit.seat.variant, "odd")}, "is 'odd'"),
        (lambda unit: {"dims": dict.fromkeys(unit.seat.dims, 1 << 30)}, "is 1073741824"),
    ],
    ids=["dtype", "too_few_rows", "too_many_rows", "scheme", "structure", "variant", "dims"],
)
def test_seat_outside_the_envelope_is_refused(
    unit: Unit, change: Callable[[Unit], dict[str, object]], words: str
) -> None:
    refusal = unit.refusal(**change(unit))
    assert (refusal.gate, refusal.reason) == ("bind", "envelope")
    assert words in refusal.detail


def test_refusal_carries_the_number_and_the_limit(kernel: ModuleType) -> None:
    unit = make_unit("decoder_ffn/torch_int8", "w8a16_decode", kernel)
    dims = {**unit.seat.dims, "F": 161}
    (measured,) = unit.refusal(dims=dims).measured
    assert (measured.metric, measured.value, measured.op, measured.required) == ("dims.F % 16", 1, "<=", 0)


EDGES = {
    "decoder_ffn/torch_int4": [("D", 33, 32), ("D", 48, 32), ("F", 161, 32)],
    "linear_proj/torch_int4": [("K", 33, 32), ("K", 48, 32), ("N", 24, 16), ("N", 1025, 16)],
}


@pytest.mark.parametrize(
    ("name", "symbol", "size", "divisor"), [(name, *edge) for name, edges in EDGES.items() for edge in edges], ids=str
)
def test_size_beside_a_group_is_refused(kernel: ModuleType, name: str, symbol: str, size: int, divisor: int) -> None:
    unit = make_unit(name, "w4a16_decode", kernel)
    refusal = unit.refusal(dims={**unit.seat.dims, symbol: size})
    assert f"{symbol} is {size}, torch_int4 takes multiples of {divisor}" in refusal.detail
    assert refusal.measured[0].value == size % divisor


@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=["nan", "inf"])
def test_weight_that_is_not_finite_is_refused(unit: Unit, bad: float) -> None:
    slot = next(iter(unit.seat.weights))
    spoiled = unit.seat.weights[slot].clone()
    spoiled.view(-1)[5] = bad
    refusal = unit.refusal(weights={**unit.seat.weights, slot: spoiled})
    assert (refusal.reason, refusal.measured[0].value) == ("nonfinite", 1)
    assert slot in refusal.detail


@pytest.mark.parametrize(
    ("name", "scheme", "slot", "largest", "limit"),
    [
        ("linear_proj/torch_packed", "w16a32", "w", 1e5, 65504),
        ("linear_proj/torch_int4", "w4a16_decode", "w", 2e38, torch.finfo(torch.bfloat16).max / 2),
        ("qkv_pack/torch_bf16", "bf16_structural", "w_q", 3.4e38, torch.finfo(torch.bfloat16).max),
    ],
    ids=["half", "int4_range", "bfloat16"],
)
def test_weight_beyond_the_format_is_refused_with_its_size(
    kernel: ModuleType, name: str, scheme: str, slot: str, largest: float, limit: float
) -> None:
    unit = make_unit(name, scheme, kernel)
    weight = unit.seat.weights[slot].clone()
    weight[0, 0] = largest
    refusal = unit.refusal(weights={**unit.seat.weights, slot: weight})
    (found,) = refusal.measured
    assert (refusal.reason, found.value, found.required) == ("envelope", pytest.approx(largest), limit)


@pytest.mark.parametrize("scheme", ["fp8_static", "fp8_static_keep_outliers"])
@pytest.mark.parametrize("scale", [None, 0.0, -1.0, math.nan, math.inf], ids=str)
def test_static_scale_must_be_there_and_positive(kernel: ModuleType, scheme: str, scale: float | None) -> None:
    unit = make_unit("decoder_ffn/torch_fp8", scheme, kernel)
    by_point = dict(unit.scales.by_point)
    if scale is None:
        del by_point["act_after_mul"]
    else:
        by_point["act_after_mul"] = scale
    answer = unit.module.bind(unit.seat, Scales(by_point), kernel)
    assert isinstance(answer, Refusal)
    assert answer.reason == "scales"
    assert "act_after_mul" in answer.detail


def test_kernel_without_the_layer_is_unavailable(unit: Unit) -> None:
    poor = ModuleType("poor")
    poor.unsupported = lambda layer: f"{layer} needs more"  # type: ignore[attr-defined]
    with pytest.raises(KernelUnavailable, match="needs more"):
        unit.module.bind(unit.seat, unit.scales, poor)


def test_bands_are_the_phases_each_scheme_is_for(unit: Unit) -> None:
    low, high = unit.entry.impl.rows[unit.seat.scheme]
    for_prompts = unit.seat.scheme in {"w8a8_dynamic", "fp8_static", "fp8_static_keep_outliers", "bf16_structural"}
    assert low == 1
    if unit.seat.structure in {"norm_fused", "patch_projection"}:
        assert high == 6256  # an image has thousands of patches, and every one of them is a row
    elif unit.seat.structure == "cadence_static":
        assert high == 1024  # its rows are those of a prompt with images, whatever phase reads them
    else:
        assert high == (512 if for_prompts else 64 if unit.seat.structure == "vision_ffn" and high > 8 else 8)


def test_rows_of_one_call_do_not_depend_on_the_band(kernel: ModuleType) -> None:
    unit = make_unit("decoder_ffn/torch_packed", "w16a32", kernel)
    x: Tensor = unit.rows(8)
    with torch.no_grad():
        part = unit.bind()
        alone = torch.cat([part(row[None]) for row in x])
        assert torch.allclose(part(x), alone, rtol=1e-5, atol=1e-6)
