"""Digests of weights that hold nothing, in as many axes as they have."""

from __future__ import annotations

import ctypes

import pytest

from pytest_frt.certs.digest import slots_digest

EMPTY = {"one axis": ((0,), ctypes.c_float * 0), "two axes": ((0, 4), ctypes.c_float * 4 * 0)}


@pytest.mark.parametrize(("shape", "kind"), EMPTY.values(), ids=EMPTY)
def test_empty_weights_have_the_digest_of_no_bytes(shape: tuple[int, ...], kind: type[ctypes.Array[object]]) -> None:
    found = slots_digest([("w", "float32", shape, memoryview(kind()))])
    assert found == slots_digest([("w", "float32", shape, memoryview(b""))])
    assert found != slots_digest([("w", "float32", (*shape, 1), memoryview(kind()))])
