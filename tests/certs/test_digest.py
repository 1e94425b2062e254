"""The weights digest is the written format, binds every part of a slot, and does not depend on threads."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable

import pytest

from pytest_frt.certs.digest import CHUNK, Slot, canonical_digest, slots_digest

DATA = bytes(range(256)) * (CHUNK // 256) * 2 + b"tail"


def slots() -> list[Slot]:
    return [("w_up", "float32", (4, 2), memoryview(DATA)), ("b_up", "float32", (), memoryview(b"\x01\x02\x03\x04"))]


def plain(found: list[Slot]) -> str:
    """Return the digest by the words of the format, without threads or views."""

    def sha(data: bytes) -> bytes:
        return hashlib.sha256(data).digest()

    def text(value: str) -> bytes:
        return len(value.encode()).to_bytes(4, "big") + value.encode()

    body = b"frt-weights-v1\0"
    for name, dtype, shape, memory in found:
        data, size = bytes(memory), memory.nbytes.to_bytes(8, "big")
        leaves = b"".join(sha(b"\0" + data[at : at + 2**20]) for at in range(0, len(data), 2**20))
        body += text(name) + text(dtype) + text(",".join(map(str, shape))) + size
        body += sha(b"frt-chunks-v1\0" + size + leaves)
    return hashlib.sha256(body).hexdigest()


def test_is_the_documented_format() -> None:
    assert slots_digest(slots()) == plain(slots())
    assert slots_digest([("w", "float32", (0, 3), memoryview(b""))]) == plain(
        [("w", "float32", (0, 3), memoryview(b""))]
    )


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_change_nothing(threads: int) -> None:
    assert slots_digest(slots(), threads=threads) == plain(slots())


def change(index: int, value: object) -> Callable[[list[Slot]], list[Slot]]:
    def spoil(found: list[Slot]) -> list[Slot]:
        first = list(found[0])
        first[index] = value
        return [tuple(first), *found[1:]]  # type: ignore[list-item]

    return spoil


SPOILS = {
    "last byte": change(3, memoryview(DATA[:-1] + b"L")),
    "chunks exchanged": change(3, memoryview(DATA[4:CHUNK] + DATA[:4] + DATA[CHUNK:])),
    "one byte less": change(3, memoryview(DATA[:-1])),
    "name": change(0, "w_down"),
    "dtype": change(1, "int32"),
    "shape": change(2, (2, 4)),
    "order of slots": lambda found: found[::-1],
    "slot left out": lambda found: found[:1],
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_binds(spoil: Callable[[list[Slot]], list[Slot]]) -> None:
    assert slots_digest(spoil(slots())) != slots_digest(slots())


def test_reads_typed_memory_as_its_bytes_and_refuses_gaps() -> None:
    values = array("f", [1.0, 2.0, 3.0])
    typed = slots_digest([("w", "float32", (3,), memoryview(values))])
    assert typed == slots_digest([("w", "float32", (3,), memoryview(values.tobytes()))])
    with pytest.raises(ValueError, match="not contiguous"):
        slots_digest([("w", "float32", (2,), memoryview(values)[::2])])


def test_canonical_digest_ignores_order_and_nothing_else() -> None:
    assert canonical_digest({"a": 1, "b": None}) == canonical_digest({"b": None, "a": 1})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": "1"})
    assert canonical_digest({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()
