"""Symbolic sizes: what is solved is what was meant, and a contradiction is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_frt.errors import SpecError
from pytest_frt.spec.dims import SizeMismatch, evaluate, shape_of, solve, symbols

SHAPES = {"x": ("M", "3*D"), "w": ("(Hq+2*Hkv)*D", "D/2"), "q": ("Hq", "D-1"), "b": ("Hkv",)}


@given(st.tuples(*[st.integers(1, 64)] * 3), st.integers(1, 500).map(lambda half: 2 * half))
def test_solve_inverts_shapes(sizes: tuple[int, int, int], even: int) -> None:
    dims = dict(zip(("M", "Hq", "Hkv"), sizes, strict=True)) | {"D": even}
    actual = {name: shape_of(shape, dims) for name, shape in SHAPES.items()}
    assert solve(SHAPES, actual) == dims


def test_optional_tensors_may_be_missing() -> None:
    assert solve(SHAPES, {"b": (4,)}) == {"Hkv": 4}


@pytest.mark.parametrize(
    ("shapes", "actual", "words"),
    [
        ({"a": ("D",), "b": ("D",)}, {"a": (3,), "b": (4,)}, ["b has size 4", "'D' is 3", "D=3 from a"]),
        ({"a": ("3*D",)}, {"a": (10,)}, ["10 is no multiple of 3"]),
        ({"a": ("D", "F")}, {"a": (3,)}, ["a has 1 axes", "needs 2: [D, F]"]),
        ({"a": ("D+4",)}, {"a": (2,)}, ["negative", "-2"]),
    ],
    ids=["two_values", "no_multiple", "axis_missing", "negative"],
)
def test_contradiction_is_named(
    shapes: dict[str, tuple[str, ...]], actual: dict[str, tuple[int, ...]], words: list[str]
) -> None:
    with pytest.raises(SizeMismatch) as caught:
        solve(shapes, actual)
    assert all(word in caught.value.message for word in words), caught.value.message


@pytest.mark.parametrize("text", ["D**2", "f(D)", "D if 1 else 2", "1.5", "D[0]", "", "D//2", "__import__('os')"])
def test_only_arithmetic_is_a_size(text: str) -> None:
    with pytest.raises(SpecError):
        symbols(text)


def test_undetermined_symbol_is_an_error() -> None:
    with pytest.raises(SpecError, match="more than one symbol"):
        solve({"a": ("D+F",)}, {"a": (7,)})


def test_unknown_symbol_is_named() -> None:
    with pytest.raises(SpecError, match="needs F; known are D"):
        evaluate("D+F", {"D": 1})
