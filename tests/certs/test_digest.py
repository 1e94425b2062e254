"""The digests of the verifier are those of the run, bind every part of a slot, and do not depend on threads."""

from __future__ import annotations

import hashlib
from array import array

import pytest

from pytest_frt.certs.digest import Slot, canonical_digest, slots_digest
from pytest_frt.spec.weights_digest import SlotBytes
from pytest_frt.spec.weights_digest import slots_digest as digest_of_a_run

DATA = bytes(range(256)) * 4096 * 2 + b"tail"
UP: Slot = ("w_up", "float32", (4, 2), memoryview(DATA))
BIAS: Slot = ("b_up", "float32", (), memoryview(b"\x01\x02\x03\x04"))
SPOILS: dict[str, list[Slot]] = {
    "last byte": [("w_up", "float32", (4, 2), memoryview(DATA[:-1] + b"L")), BIAS],
    "halves exchanged": [("w_up", "float32", (4, 2), memoryview(DATA[4:] + DATA[:4])), BIAS],
    "one byte less": [("w_up", "float32", (4, 2), memoryview(DATA[:-1])), BIAS],
    "name": [("w_down", "float32", (4, 2), memoryview(DATA)), BIAS],
    "dtype": [("w_up", "int32", (4, 2), memoryview(DATA)), BIAS],
    "shape": [("w_up", "float32", (2, 4), memoryview(DATA)), BIAS],
    "slot left out": [UP],
    "empty slot added": [UP, BIAS, ("w_norm", "float32", (0,), memoryview(b""))],
}


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_is_the_digest_of_a_run_on_any_number_of_threads(threads: int) -> None:
    run = digest_of_a_run([SlotBytes("w_up", "float32", (4, 2), UP[3]), SlotBytes("b_up", "float32", (), BIAS[3])])
    assert slots_digest([UP, BIAS], threads=threads) == run


@pytest.mark.parametrize("spoiled", SPOILS.values(), ids=SPOILS)
def test_binds(spoiled: list[Slot]) -> None:
    assert slots_digest(spoiled) != slots_digest([UP, BIAS])


def test_typed_memory_is_read_as_its_bytes() -> None:
    values = array("f", [1.0, 2.0, 3.0])
    typed = slots_digest([("w", "float32", (3,), memoryview(values))])
    assert typed == slots_digest([("w", "float32", (3,), memoryview(values.tobytes()))])


def test_canonical_digest_ignores_order_and_nothing_else() -> None:
    assert canonical_digest({"a": 1, "b": None}) == canonical_digest({"b": None, "a": 1})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": "1"})
    assert canonical_digest({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()
