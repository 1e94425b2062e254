"""``adaln_producer``: the reference against library modules, its near misses, and what its cases hold."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pytest_frt.spec.load import load_structure
from pytest_frt.spec.modules import load_file

FOLDER = Path(__file__).parents[2] / "catalog" / "adaln_producer"
STRUCTURE = load_structure(FOLDER)
REFERENCE = load_file(FOLDER / "reference.py").reference
CASES = load_file(FOLDER / "cases.py")
WIDTH, CONDITION = 24, 10
VARIANTS = [dict(zip(STRUCTURE.variants, values, strict=True)) for values in product(*STRUCTURE.variants.values())]
each_variant = pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: "-".join(one.values()))


def given(variant: dict[str, str], dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """Return inputs, slots and axes of a variant: distinct numbers, no unit anywhere."""
    draw, pieces = torch.Generator().manual_seed(4), 3 if "gate" in variant["style"] else 2
    shapes = {"x": (1, 5, WIDTH), "cond": (1, CONDITION), "w_style": (CONDITION, pieces * WIDTH)}
    tensors = {name: torch.randn(*shape, generator=draw).to(dtype) for name, shape in shapes.items()}
    tensors["b_style"] = torch.randn(pieces * WIDTH, generator=draw).to(dtype)
    return {**tensors, **variant, "eps": 1e-3}


def outputs(**changed: Any) -> tuple[Tensor, ...]:
    found = REFERENCE(**changed)
    return found if isinstance(found, tuple) else (found,)


@each_variant
def test_reference_equals_library_modules(variant: dict[str, str]) -> None:
    at = given(variant)
    rms = nn.RMSNorm(WIDTH, eps=1e-3, elementwise_affine=False)
    norm = rms if variant["norm"] == "rms" else nn.LayerNorm(WIDTH, eps=1e-3, elementwise_affine=False)
    projection = nn.Linear(*at["w_style"].shape).double()
    projection.load_state_dict({"weight": at["w_style"].T, "bias": at["b_style"]})
    condition = nn.SiLU()(at["cond"]) if variant["conditioning"] == "silu" else at["cond"]
    scale, shift, *gate = projection(condition)[:, None].split(WIDTH, -1)
    wanted = (torch.addcmul(shift, norm(at["x"]), 1 + scale), *gate)
    torch.testing.assert_close(outputs(**at), wanted, rtol=1e-12, atol=1e-12)


@each_variant
def test_outputs_are_those_of_the_yaml(variant: dict[str, str]) -> None:
    shapes = [tuple(one.shape) for one in outputs(**given(variant))]
    wanted = {"y": (1, 5, WIDTH), "gate": (1, 1, WIDTH)}
    assert shapes == [wanted[spec.name] for spec in STRUCTURE.returned(variant)]


@each_variant
def test_every_input_slot_and_axis_matters(variant: dict[str, str]) -> None:
    at = given(variant)
    base = outputs(**at)[0]
    for name in ("x", "cond", "w_style", "b_style"):
        assert not torch.equal(outputs(**{**at, name: at[name] * 1.01})[0], base), name
    for axis in ("norm", "conditioning"):
        other = next(value for value in STRUCTURE.variants[axis] if value != variant[axis])
        assert not torch.equal(outputs(**{**at, axis: other})[0], base), axis


@each_variant
def test_near_misses_are_far_from_the_reference(variant: dict[str, str]) -> None:
    at = given(variant)
    misses = list(CASES.near_misses(variant))
    assert [miss.name for miss in misses] == ["other_norm", "shift_before_scale"]
    for miss in misses:
        assert (outputs(**{**at, **miss.keywords})[0] - outputs(**at)[0]).norm() > 0.1, miss.name


@each_variant
def test_tap_decides_the_condition(variant: dict[str, str]) -> None:
    at, seen = given(variant), dict[str, Tensor]()

    def halve(point: str, value: Tensor) -> Tensor:
        seen[point] = value
        return value * 0.5

    halved = outputs(**at, tap=halve)
    assert tuple(seen) == STRUCTURE.points
    assert not torch.allclose(halved[0], outputs(**at)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@each_variant
def test_dtype_is_kept(variant: dict[str, str], dtype: torch.dtype) -> None:
    assert {one.dtype for one in outputs(**given(variant, dtype))} == {dtype}


@pytest.mark.parametrize("axis", STRUCTURE.variants)
def test_an_unknown_value_raises(axis: str) -> None:
    with pytest.raises(KeyError):
        outputs(**{**given(VARIANTS[0]), axis: "none_such"})


def test_cases_hold_every_row_case_under_one_condition_and_conditions_one_bit_apart() -> None:
    found = {case.name: case.inputs for case in CASES.cases({"D": 8, "C": 6}, (10, 64), VARIANTS[0], seed=1)}
    assert {"rows_0", "rows_9", "rows_10", "transposed", "cond_zero", "cond_outlier"} <= set(found)
    assert {tuple(inputs["cond"].shape) for inputs in found.values()} == {(1, 6)}
    plain, following = found["cond_plain"]["cond"], found["cond_next"]["cond"]
    assert not torch.equal(plain, following)
    torch.testing.assert_close(plain, following, rtol=1e-6, atol=1e-6)
