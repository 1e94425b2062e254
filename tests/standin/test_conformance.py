"""The stand-ins have the signatures and the semantics that are published, and impls call nothing that is not."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from pytest_frt.registry import load_module
from tests.standin.conformance import EPILOGUES, FFN, NORM, OPS, SWIGLU, WEIGHT_ONLY, Op
from tests.standin.packages import FILES, Edits, loaded
from tests.standin.seats import HUB

SHARED = Path(__file__).parents[2] / "impls" / "_shared"
ONE = torch.ones(1)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    folder = tmp_path_factory.mktemp("standin")
    return {package: loaded(folder, package) for package in FILES}


@pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
def test_stand_in_has_the_published_signature(packages: dict[str, ModuleType], op: Op) -> None:
    parameters = inspect.signature(getattr(packages[op.package], op.name)).parameters.values()
    names = ["**" if one.kind is one.VAR_KEYWORD else one.name for one in parameters]
    assert names == [*op.arguments.split(), *op.others.split()]


def test_impls_expect_what_is_published() -> None:
    expected = load_module(SHARED / "hub_ops.py").PUBLISHED
    assert expected == {op.name: tuple(op.arguments.split()) for op in OPS if op.impls}


def test_every_impl_names_the_package_of_its_ops() -> None:
    stated = {(impl, op.package) for op in OPS for impl in op.impls}
    assert stated == {(name, entry.impl.kernel) for name, entry in HUB.items()}


def wide(*values: float) -> Tensor:
    """Return one row of sixteen, the least that an FP8 matmul takes."""
    return torch.tensor([[*values, *[0.0] * (16 - len(values))]])


def e4m3(x: Tensor) -> Tensor:
    return x.to(torch.float8_e4m3fn)


def ones(bias: float) -> tuple[Tensor, Tensor]:
    """Return the codes of a weight of ones, sixteen channels, and a bias."""
    return e4m3(torch.ones(16, 16)), torch.full((16,), bias, dtype=torch.bfloat16)


def reciprocal(package: ModuleType) -> list[float]:
    """Return the code of a number whose quotient by 7 is a tie, and whose product with the reciprocal is above it."""
    return list(package.common.to_e4m3(torch.tensor([1.3671875]), torch.tensor([7.0])).float().tolist())


def not_finite(package: ModuleType) -> list[float]:
    return list(package.common.to_e4m3(torch.tensor([math.nan, math.inf, -math.inf, 500.0]), ONE).float().tolist())


def rounded_before_its_bias(package: ModuleType) -> float:
    """Return 257 - 256 where 257 is no bfloat16 number: 0 if the sum is rounded first."""
    weight, bias = ones(-256.0)
    return float(package.bf16_fp8_linear_bias_bf16(wide(256, 1).bfloat16(), weight, bias, ONE, ONE)[0, 0])


def padded(package: ModuleType) -> list[list[int]]:
    weight, bias = ones(0.5)
    x = torch.arange(48.0).view(3, 16).bfloat16()
    left = package.bf16_fp8_linear_bias_bf16(x, weight, bias, ONE, ONE, pad_to=8)
    alone = package.bf16_fp8_linear_bias_bf16(x, weight, bias, ONE, ONE)
    return [list(left.shape), [int((left[:3] != alone).sum())]]


def block(op: str) -> Callable[[ModuleType], float]:
    """Return what leaves a block whose hidden values are 240, 4 and 13, of sum 257, and whose last bias is -256."""

    def run(package: ModuleType) -> float:
        weight, bias = ones(-256.0)
        up = e4m3(torch.eye(16))
        zeros = torch.zeros(16, dtype=torch.bfloat16)
        x = wide(240, 4, 13).bfloat16()
        return float(getattr(package, op)(x, up, zeros, weight, bias, ONE, ONE, ONE, ONE)[0, 0])

    return run


def stopped_at_bfloat16(package: ModuleType) -> float:
    """Return what leaves a gated block whose gate is 257 and whose ``up`` is 1, with the hidden scale beside a tie.

    216 lies between 256 / 1.187 = 215.7 and 257 / 1.187 = 216.5, and in the middle of the codes 208 and 224.
    """
    gate_up = e4m3(torch.cat((torch.ones(16, 16), torch.zeros(16, 16).index_fill(1, torch.tensor([1]), 1.0))))
    scales = (ONE, ONE, torch.tensor([1.187]), ONE / 1.187)
    return float(package.bf16_fp8_swiglu_mlp_bf16(wide(256, 1).bfloat16(), gate_up, e4m3(torch.eye(16)), *scales)[0, 0])


def bias_in_the_sum(package: ModuleType) -> float:
    weight = torch.ones(16, 16, dtype=torch.bfloat16)
    _, bias = ones(-256.0)
    return float(package.bf16_linear_bias_bf16(wide(256, 1).bfloat16(), weight, bias)[0, 0])


def halves_to_even(package: ModuleType) -> list[float]:
    row = [127.0, 0.5, 1.5, 2.5, -0.5, -2.5, *[0.0] * 58]
    codes, scales = package.quantize_w8_weight_bf16(torch.tensor([row, [0.0] * 64]).bfloat16())
    return [*codes[0, :6].tolist(), *scales.tolist()]


def residual_in_place(package: ModuleType) -> list[float]:
    """Return the residual after 1 + 2^-9, which bfloat16 has as 1, and the code of its norm by a scale beside a tie.

    Over the variance of what was rounded the norm is 1.063, over that of the sum 1.061: 1.0625 lies between.
    """
    residual, weight = torch.ones(1, 2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)
    x = torch.full((1, 2), 2.0**-9, dtype=torch.bfloat16)
    op = package.residual_add_rms_norm_quant_fp8_static_bf16
    first = op(residual, x, weight, torch.tensor([1 / 1.063]), 0.0).float()[0, 0].item()
    op(residual, torch.ones(1, 2, dtype=torch.bfloat16), weight, ONE)
    return [first, residual[0, 0].item()]


class Semantic(NamedTuple):
    """What an op does where another would do something else; ``edits`` make the stand-in that other."""

    package: str
    run: Callable[[ModuleType], Any]
    expected: Any
    edits: Edits


E4M3 = "torch.nan_to_num(x.float() * (1.0 / scale), nan=-E4M3_MAX)"
SEMANTICS: dict[str, Semantic] = {
    "reciprocal_multiply": Semantic(SWIGLU, reciprocal, [0.203125], {"x.float() * (1.0 / scale)": "x.float() / scale"}),
    "nan_is_the_lowest": Semantic(
        FFN, not_finite, [-448.0, 448.0, -448.0, 448.0], {E4M3: "(x.float() * (1.0 / scale))"}
    ),
    "sum_rounded_before_the_bias": Semantic(
        FFN,
        rounded_before_its_bias,
        0.0,
        {
            "    out.copy_(common.fp8_sums(input_fp8, weight, input_scale, weight_scale))\n": "",
            "out.copy_(out.float() + bias.float())": (
                "out.copy_(common.fp8_sums(input_fp8, weight, input_scale, weight_scale) + bias.float())"
            ),
        },
    ),
    "padding_changes_nothing": Semantic(FFN, padded, [[3, 16], [0]], {"return left[: input.shape[0]]": "return left"}),
    "first_form_rounds_before_the_last_bias": Semantic(
        FFN, block("bf16_fp8_gelu_mlp_bf16"), 0.0, {"given[9:], epilogue=False": "given[9:], epilogue=True"}
    ),
    "second_form_rounds_after_it": Semantic(
        FFN, block("bf16_fp8_gelu_mlp_v2_bf16"), 1.0, {"given[9:], epilogue=True": "given[9:], epilogue=False"}
    ),
    "gate_and_up_leave_as_bfloat16": Semantic(
        SWIGLU,
        stopped_at_bfloat16,
        208.0,
        {
            "gate_up.copy_(common.fp8_sums(input_fp8, gate_up_weight, input_scale, gate_up_scale))": (
                "gate_up = common.fp8_sums(input_fp8, gate_up_weight, input_scale, gate_up_scale)"
            )
        },
    ),
    "bias_in_the_sum": Semantic(
        EPILOGUES, bias_in_the_sum, 1.0, {"_sums(x, w) + bias.float()": "_sums(x, w).bfloat16().float() + bias.float()"}
    ),
    "int8_half_to_even": Semantic(
        WEIGHT_ONLY,
        halves_to_even,
        [127, 0, 2, 2, 0, -2, 1.0, pytest.approx(1e-12)],
        {"(weight.float() / scales[:, None]).round()": "(weight.float() / scales[:, None] + 0.5).floor()"},
    ),
    "residual_in_place": Semantic(NORM, residual_in_place, [1.0, 2.0], {"residual.copy_(added)": "residual = added"}),
    "variance_of_the_unrounded_sum": Semantic(
        NORM, residual_in_place, [1.0, 2.0], {"added.square()": "residual.float().square()"}
    ),
}
each_semantic = pytest.mark.parametrize("semantic", SEMANTICS.values(), ids=SEMANTICS)


@each_semantic
def test_stand_in_means_what_is_published(packages: dict[str, ModuleType], semantic: Semantic) -> None:
    assert semantic.run(packages[semantic.package]) == semantic.expected


@each_semantic
def test_planted_deviation_is_told(tmp_path: Path, semantic: Semantic) -> None:
    assert semantic.run(loaded(tmp_path, semantic.package, semantic.edits)) != semantic.expected


BAD_INPUT: dict[str, tuple[Tensor, str]] = {
    "no_rows": (torch.zeros(0, 16, dtype=torch.bfloat16), "non-zero"),
    "columns_first": (torch.zeros(16, 4, dtype=torch.bfloat16).t(), "contiguous"),
    "float32": (torch.zeros(2, 16), "dtype"),
    "odd_address": (torch.zeros(33, dtype=torch.bfloat16)[1:].view(2, 16), "misaligned"),
}


@pytest.mark.parametrize(("x", "words"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_stand_in_refuses_what_the_package_refuses(packages: dict[str, ModuleType], x: Tensor, words: str) -> None:
    weight, bias = ones(0.0)
    with pytest.raises(RuntimeError, match=words):
        packages[FFN].bf16_fp8_linear_bias_bf16(x, weight, bias, ONE, ONE)


@pytest.mark.parametrize("name", HUB)
def test_page_tells_what_an_impl_declares(repository: Path, name: str) -> None:
    page = (repository / "docs" / "published-kernels.md").read_text(encoding="utf-8")
    structure, _, impl = name.partition("/")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {structure} | {impl} |"))
    declared = HUB[name].impl
    ((scheme, (low, high)),) = declared.rows.items()
    assert f"| {scheme} | `{declared.kernel}` |" in row
    assert f"| {low} to {high} |" in row
