"""Chunk-tree SHA-256 of weight slots: one fixed format, hashed on several threads, without torch.

The format is ``frt-weights-v1``; ``||`` joins bytes, ``u32``/``u64`` are big-endian, text is UTF-8::

    leaf(i)      = sha256(0x00 || bytes of chunk i)                     chunks of 1 MiB, the last one shorter
    tensor       = sha256(0x01 || u64(byte count) || leaf(0) || leaf(1) || ...)
    seat         = sha256("frt-weights-v1" || 0x00 || slot || slot || ...)   slots in the order of their names
    slot         = text(name) || text(dtype) || text(shape) || tensor
    text(t)      = u32(length of t) || t

``dtype`` is torch's name without its prefix (``float32``), ``shape`` the sizes joined by ``x`` (``2048x640``). The
bytes are the contiguous little-endian elements in the layout the host stores; a transposed slot is hashed as stored.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

CHUNK = 1 << 20
FORMAT = b"frt-weights-v1\x00"


@dataclass(frozen=True, slots=True)
class SlotBytes:
    """One slot's tensor as bytes.

    Attributes:
        name: Slot name.
        dtype: e.g. ``float32``.
        shape: Sizes as stored.
        data: A flat, contiguous view of its bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def _leaf(chunk: memoryview) -> bytes:
    sha = hashlib.sha256(b"\x00")
    sha.update(chunk)
    return sha.digest()


def _chunks(data: memoryview) -> Iterator[memoryview]:
    return (data[start : start + CHUNK] for start in range(0, data.nbytes, CHUNK))


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">I", len(raw)) + raw


def _slot(slot: SlotBytes, leaves: Iterable[bytes]) -> bytes:
    tensor = hashlib.sha256(b"".join((b"\x01", struct.pack(">Q", slot.data.nbytes), *leaves))).digest()
    return _text(slot.name) + _text(slot.dtype) + _text("x".join(map(str, slot.shape))) + tensor


def slots_digest(slots: Iterable[SlotBytes], *, threads: int = 0) -> str:
    """Return the hex ``seat`` digest of a seat's slots.

    Args:
        slots: Every filled slot of the seat, in any order.
        threads: Hashing threads; 0 takes one per core. The digest does not depend on it.

    Raises:
        ValueError: a slot name stands twice.
    """
    ordered = sorted(slots, key=lambda slot: slot.name)
    if len({slot.name for slot in ordered}) != len(ordered):
        raise ValueError(f"slot names stand twice in {[slot.name for slot in ordered]}")
    flat = [(index, chunk) for index, slot in enumerate(ordered) for chunk in _chunks(slot.data.cast("B"))]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        leaves = list(pool.map(_leaf, (chunk for _, chunk in flat)))
    by_slot: list[list[bytes]] = [[] for _ in ordered]
    for (index, _), leaf in zip(flat, leaves, strict=True):
        by_slot[index].append(leaf)
    body = b"".join(_slot(slot, tree) for slot, tree in zip(ordered, by_slot, strict=True))
    return hashlib.sha256(FORMAT + body).hexdigest()
