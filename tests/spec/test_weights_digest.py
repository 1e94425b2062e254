"""frt-weights-v1 equals its written definition, and every part of a slot decides the digest."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

import pytest

from pytest_frt.spec.weights_digest import SlotBytes, slots_digest

MIB = 1 << 20


def slot(name: str = "w", size: int = 2 * MIB + 5) -> SlotBytes:
    return SlotBytes(name, "float32", (3, 4), memoryview(random.Random(1).randbytes(size)))  # noqa: S311 (test data)


def by_definition(slots: list[SlotBytes]) -> str:
    """The format, written a second time without chunk objects or threads."""
    text = lambda word: len(word).to_bytes(4, "big") + word.encode()  # noqa: E731
    body = b"frt-weights-v1\0"
    for one in sorted(slots, key=lambda s: s.name):
        raw = bytes(one.data)
        leaves = [hashlib.sha256(b"\0" + raw[at : at + MIB]).digest() for at in range(0, len(raw), MIB)]
        tree = hashlib.sha256(b"\1" + len(raw).to_bytes(8, "big") + b"".join(leaves)).digest()
        body += text(one.name) + text(one.dtype) + text("x".join(str(n) for n in one.shape)) + tree
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB], ids=str)
def test_digest_equals_its_definition(size: int) -> None:
    slots = [slot(size=size), slot("b", size=12)]
    assert slots_digest(slots) == by_definition(slots)


def test_known_value_never_changes() -> None:
    one = SlotBytes("w", "float32", (2,), memoryview(bytes(range(8))))
    assert slots_digest([one]) == by_definition([one])
    assert slots_digest([one]) == "dda25fdb10164d4f564174e498b262359efa50764de2b328abe12bde7a068964"


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_order_do_not_matter(threads: int) -> None:
    slots = [slot(), slot("a"), slot("b", size=9)]
    assert slots_digest(slots[::-1], threads=threads) == slots_digest(slots, threads=1)


def last_byte(one: SlotBytes) -> SlotBytes:
    return replace(one, data=memoryview(bytes(one.data[:-1]) + bytes([one.data[-1] ^ 1])))


def swapped_chunks(one: SlotBytes) -> SlotBytes:
    raw = bytes(one.data)
    return replace(one, data=memoryview(raw[MIB : 2 * MIB] + raw[:MIB] + raw[2 * MIB :]))


@pytest.mark.parametrize(
    "spoil",
    [
        last_byte,
        swapped_chunks,
        lambda one: replace(one, data=one.data[:-1]),
        lambda one: replace(one, dtype="int32"),
        lambda one: replace(one, shape=(4, 3)),
        lambda one: replace(one, name="v"),
    ],
    ids=["last_byte", "swapped_chunks", "cut", "dtype", "shape", "name"],
)
def test_every_part_decides(spoil: object) -> None:
    assert callable(spoil)
    assert slots_digest([spoil(slot())]) != slots_digest([slot()])


def test_a_name_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="twice"):
        slots_digest([slot(), slot()])
