"""Binding over published packages: what they cannot do is refused with the number, what they lack is no failure."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_frt.contracts.impl import Scales
from pytest_frt.contracts.verdict import Refusal
from pytest_frt.errors import KernelUnavailable
from tests.impls.conftest import outputs
from tests.standin.conformance import OPS
from tests.standin.packages import loaded
from tests.standin.seats import HUB, HubUnit, hub_unit

FP8 = [name for name, entry in HUB.items() if any(entry.impl.points.values())]
each_impl = pytest.mark.parametrize("name", HUB)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    folder = tmp_path_factory.mktemp("standin")
    return {package: loaded(folder, package) for package in {entry.impl.kernel for entry in HUB.values()}}


@pytest.fixture
def unit(packages: dict[str, ModuleType], name: str) -> HubUnit:
    return hub_unit(name, packages[HUB[name].impl.kernel])


@each_impl
def test_part_owns_no_parameter_no_buffer_and_no_host_tensor(unit: HubUnit) -> None:
    own = {slot: tensor.clone().requires_grad_() for slot, tensor in unit.seat.weights.items()}
    alive = [weakref.ref(tensor) for tensor in own.values()]
    part = unit.bind(replace(unit.seat, weights=own))
    assert not [*part.parameters(), *part.buffers(), *part.state_dict()]
    del own
    assert not [reference for reference in alive if reference() is not None]


@each_impl
def test_part_is_neither_copied_nor_pickled(unit: HubUnit) -> None:
    part = unit.bind()
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="bind again"):
            attempt(part)


@each_impl
def test_part_says_that_it_has_no_gradient(unit: HubUnit) -> None:
    with pytest.raises(RuntimeError, match="no gradient"):
        unit.bind()(unit.rows(4).requires_grad_())


@each_impl
@torch.no_grad()
def test_outputs_may_be_written_to(unit: HubUnit) -> None:
    part, x = unit.bind(), unit.rows(4)
    first = outputs(part(x))
    kept = [y.clone() for y in first]
    for y in first:
        assert y.is_contiguous()
        y.add_(1)
    assert all(torch.equal(a, b) for a, b in zip(outputs(part(x)), kept, strict=True))


def outside(unit: HubUnit, symbol: str, size: int) -> dict[str, Any]:
    return {"dims": {**unit.seat.dims, symbol: size}}


Change = Callable[[HubUnit], dict[str, Any]]
OUTSIDE: dict[str, tuple[Change, str]] = {
    "dtype": (lambda _: {"dtype": "float32"}, "dtype is 'float32'"),
    "no_rows": (lambda _: {"rows": (0, 4)}, "called with 0 to 4 rows"),
    "too_many_rows": (lambda unit: {"rows": (1, unit.seat.rows[1] + 1)}, "rows, hub_"),
    "scheme": (lambda _: {"scheme": "fp8_static"}, "scheme is 'fp8_static'"),
    "structure": (lambda _: {"structure": "norm"}, "structure is 'norm'"),
    "variant": (lambda unit: {"variant": dict.fromkeys(unit.seat.variant, "odd")}, "is 'odd'"),
    "too_large": (lambda unit: {"dims": dict.fromkeys(unit.seat.dims, 1 << 30)}, "is 1073741824"),
    "too_small": (lambda unit: {"dims": dict.fromkeys(unit.seat.dims, 1)}, "is 1,"),
}


@pytest.mark.parametrize(("change", "words"), OUTSIDE.values(), ids=OUTSIDE)
@each_impl
def test_seat_outside_the_envelope_is_refused(unit: HubUnit, change: Change, words: str) -> None:
    refusal = unit.refusal(**change(unit))
    assert (refusal.gate, refusal.reason) == ("bind", "envelope")
    assert words in refusal.detail


SIZES = [
    ("decoder_ffn/hub_fp8", "D", 496, 512),
    ("decoder_ffn/hub_fp8", "F", 1008, 1024),
    ("decoder_ffn/hub_fp8", "F", 16400, 16384),
    ("decoder_ffn/hub_fp8", "D", 520, 16),
    ("decoder_ffn/hub_w8a16", "F", 1056, 64),
    ("vision_ffn/hub_fp8", "F", 4308, 16),
    ("linear_proj/hub_fp8", "N", 112, 128),
    ("linear_proj/hub_fp8", "K", 520, 16),
    ("qkv_pack/hub_fp8", "Nk", 40, 16),
    ("norm_fused/hub_bf16", "D", 65, 2),
]


@pytest.mark.parametrize(("name", "symbol", "size", "limit"), SIZES)
def test_refusal_of_a_size_carries_number_and_limit(unit: HubUnit, symbol: str, size: int, limit: int) -> None:
    refusal = unit.refusal(**outside(unit, symbol, size))
    (measured,) = refusal.measured
    assert f"{symbol} is {size}" in refusal.detail
    assert str(limit) in refusal.detail
    assert measured.metric.startswith(f"dims.{symbol}")


VARIANTS = [
    ("decoder_ffn/hub_fp8", "norm", "offset"),
    ("decoder_ffn/hub_w8a16", "residual", "add"),
    ("vision_ffn/hub_fp8", "activation", "gelu_erf"),
    ("vision_ffn/hub_fp8", "norm", "post"),
    ("linear_proj/hub_fp8", "bias", "twice"),
]


@pytest.mark.parametrize(("name", "axis", "value"), VARIANTS)
def test_variant_that_the_op_does_not_compute_is_refused(unit: HubUnit, axis: str, value: str) -> None:
    refusal = unit.refusal(variant={**unit.seat.variant, axis: value})
    assert f"{axis} is {value!r}" in refusal.detail


@each_impl
def test_slot_of_another_dtype_is_refused(unit: HubUnit) -> None:
    slot = list(unit.seat.weights)[-1]
    refusal = unit.refusal(weights={**unit.seat.weights, slot: unit.seat.weights[slot].float()})
    assert (refusal.reason, refusal.detail.split(",")[0]) == ("dtype", f"slot {slot} is float32")


@each_impl
@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=["nan", "inf"])
def test_weight_that_is_not_finite_is_refused(unit: HubUnit, bad: float) -> None:
    slot = next(iter(unit.seat.weights))
    spoiled = unit.seat.weights[slot].clone()
    spoiled.view(-1)[5] = bad
    refusal = unit.refusal(weights={**unit.seat.weights, slot: spoiled})
    assert (refusal.reason, refusal.measured[0].value) == ("nonfinite", 1)


@each_impl
def test_build_for_another_vendor_is_refused(unit: HubUnit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    refusal = unit.refusal()
    assert (refusal.reason, "ROCm 6.4" in refusal.detail) == ("device", True)


@pytest.mark.parametrize("scale", [None, 0.0, -1.0, math.nan, math.inf, 1e-45, 1e38], ids=str)
@pytest.mark.parametrize("name", FP8)
def test_static_scale_must_be_there_and_have_a_reciprocal(unit: HubUnit, scale: float | None) -> None:
    by_point = dict(unit.scales.by_point)
    point = list(by_point)[-1]
    del by_point[point]
    if scale is not None:
        by_point[point] = scale
    answer = unit.module.bind(unit.seat, Scales(by_point), unit.kernel)
    assert isinstance(answer, Refusal), answer
    assert (answer.reason, str(scale) in answer.detail or scale is None) == ("scales", True)


@pytest.mark.parametrize("name", ["linear_proj/hub_fp8"])
@pytest.mark.parametrize(
    ("scale", "admitted"), [(2.0**-127, False), (2.0**-126, True), (2.0**126, True), (2.0**127, False)], ids=str
)
def test_scale_is_admitted_up_to_where_its_reciprocal_is_exact(unit: HubUnit, scale: float, *, admitted: bool) -> None:
    answer = unit.module.bind(unit.seat, Scales({"x": scale}), unit.kernel)
    assert isinstance(answer, Refusal) is not admitted


@pytest.mark.parametrize("name", ["qkv_pack/hub_fp8"])
def test_siblings_whose_ratio_no_number_holds_are_refused(unit: HubUnit) -> None:
    weights = {**unit.seat.weights, "w_q": unit.seat.weights["w_q"] * 2.0**20}
    weights["w_k"] = torch.full_like(weights["w_k"], 2.0**-120)
    refusal = unit.refusal(weights=weights)
    assert (refusal.reason, refusal.measured[0].metric) == ("scales", "scale.ratio of w_k")


def test_block_with_a_dead_slot_returns_zeros(packages: dict[str, ModuleType]) -> None:
    unit = hub_unit("decoder_ffn/hub_fp8", packages[HUB["decoder_ffn/hub_fp8"].impl.kernel])
    dead = {**unit.seat.weights, "w_up": torch.zeros_like(unit.seat.weights["w_up"])}
    with torch.no_grad():
        y: Tensor = unit.bind(replace(unit.seat, weights=dead))(unit.rows(4))
    assert torch.equal(y, torch.zeros_like(y))


CALLS = [(impl, op.name) for op in OPS for impl in op.impls]
FORMS = {"bf16_fp8_gelu_mlp_bf16", "bf16_fp8_gelu_mlp_v2_bf16"}


def with_op(unit: HubUnit, op: str, value: object) -> ModuleType:
    """Return the package with one op another; None takes it away."""
    other = ModuleType("other")
    other.__dict__.update({name: one for name, one in vars(unit.kernel).items() if name != op})
    if value is not None:
        setattr(other, op, value)
    return other


def bound_by(unit: HubUnit, op: str) -> HubUnit:
    """Return the unit in the variant that calls an op."""
    axes = {"w8a16_swiglu_ffn_bf16": {"activation": "silu"}, "bf16_fp8_swiglu_mlp_bf16": {"activation": "silu"}}
    axes["bf16_linear_bf16"] = {"bias": "none"}
    return replace(unit, seat=replace(unit.seat, variant={**unit.seat.variant, **axes.get(op, {})}))


@pytest.mark.parametrize(("name", "op"), CALLS)
def test_package_without_an_op_is_unavailable(unit: HubUnit, op: str) -> None:
    package = with_op(unit, op, None)
    if op in FORMS:  # either of them will do
        (other,) = FORMS - {op}
        package = with_op(replace(unit, kernel=package), other, None)
    with pytest.raises(KernelUnavailable, match=f"{unit.entry.impl.kernel}: this build has no op .*{op}"):
        unit.module.bind(bound_by(unit, op).seat, unit.scales, package)


def taking(*names: str, others: bool = False) -> Callable[..., None]:
    """Return a function of that signature."""

    def op(*_: object, **__: object) -> None: ...

    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in names]
    rest = [kinds("others", kinds.VAR_KEYWORD)] if others else []
    op.__signature__ = inspect.Signature([*parameters, *rest])  # type: ignore[attr-defined]
    return op


def arguments(op: str) -> list[str]:
    return next(one.arguments.split() for one in OPS if one.name == op)


SIGNATURES: dict[str, Callable[[str], object]] = {
    "reversed": lambda op: taking(*reversed([*arguments(op), "spare"]), others=True),
    "first_renamed": lambda op: taking("given", *arguments(op)[1:], others=True),
    "one_more": lambda op: taking(*arguments(op), "stream", others=True),
    "takes_nothing": lambda _: lambda: None,
    "no_function": lambda _: 1.0,
    "does_not_say": lambda _: range,
}


@pytest.mark.parametrize("change", SIGNATURES.values(), ids=SIGNATURES)
@pytest.mark.parametrize(("name", "op"), [call for call in CALLS if call[1] != "bf16_fp8_gelu_mlp_bf16"])
def test_op_with_another_signature_is_refused(unit: HubUnit, op: str, change: Callable[[str], object]) -> None:
    package = with_op(unit, op, change(op))
    refusal = unit.module.bind(bound_by(unit, op).seat, unit.scales, package)
    assert isinstance(refusal, Refusal), refusal
    assert (refusal.gate, refusal.reason) == ("bind", "signature")
    assert f"{op} takes" in refusal.detail
    assert "calls (" in refusal.detail


@pytest.mark.parametrize(("name", "op"), [call for call in CALLS if call[1].startswith("w8a16_")])
def test_op_without_what_is_passed_by_name_is_refused(unit: HubUnit, op: str) -> None:
    package = with_op(unit, op, taking(*arguments(op)))
    refusal = unit.module.bind(bound_by(unit, op).seat, unit.scales, package)
    assert isinstance(refusal, Refusal), refusal
    assert "variant=)" in refusal.detail


def test_rows_that_no_form_serves_are_named(packages: dict[str, ModuleType]) -> None:
    name = "decoder_ffn/hub_w8a16"
    unit = hub_unit(name, packages[HUB[name].impl.kernel])
    with pytest.raises(ValueError, match="takes 1 to 8 rows, got 9"), torch.no_grad():
        unit.bind()(torch.zeros(9, 512, dtype=torch.bfloat16))
