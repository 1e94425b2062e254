"""Chunk-tree SHA-256 of weight slots: one fixed format, hashed on several threads, without torch.

The format is ``frt-weights-v1``; ``||`` joins bytes, ``u32``/``u64`` are big-endian, text is UTF-8::

    leaf(i)      = sha256(0x00 || bytes of chunk i)                     chunks of 1 MiB, the last one shorter
    tensor       = sha256(0x01 || u64(byte count) || leaf(0) || leaf(1) || ...)
    seat         = sha256("frt-weights-v1" || 0x00 || slot || slot || ...)   slots in the order of their names
    slot         = text(name) || text(dtype) || text(shape) || tensor
    text(t)      = u32(length of t) || t

``dtype`` is torch's name without its prefix (``float32``), ``shape`` the sizes joined by ``x`` (``2048x640``). The
bytes are the contiguous little-endian elements in the layout the host stores; a transposed slot is hashed as stored.
What decides is bytes alone: that two slots share memory, or that a checkpoint came in several files, is no part of it.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

CHUNK: Final = 1 << 20
FORMAT: Final = b"frt-weights-v1\x00"


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


@dataclass(frozen=True, slots=True)
class SlotTree:
    """One slot whose tensor was hashed.

    Attributes:
        name: Slot name.
        dtype: e.g. ``float32``.
        shape: Sizes as stored.
        tensor: What :func:`tensor_digest` returned.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    tensor: bytes


def runs(data: memoryview, chunks: int = 1) -> Iterator[memoryview]:
    """Yield bytes that begin at a chunk's border in runs of several chunks."""
    size = chunks * CHUNK
    return (data[start : start + size] for start in range(0, data.nbytes, size))


def leaves(run: memoryview) -> bytes:
    """Return the joined digests of the chunks of a run."""
    found = []
    for chunk in runs(run):
        sha = hashlib.sha256(b"\x00")
        sha.update(chunk)
        found.append(sha.digest())
    return b"".join(found)


def tensor_digest(size: int, digests: Iterable[bytes]) -> bytes:
    """Return the digest of a tensor.

    Args:
        size: Its byte count.
        digests: Those of its chunks, in order; some may be joined already.
    """
    return hashlib.sha256(b"".join((b"\x01", struct.pack(">Q", size), *digests))).digest()


def seat_digest(slots: Iterable[SlotTree]) -> str:
    """Return the hex digest of a seat.

    Args:
        slots: Every filled slot of the seat, in any order.

    Raises:
        ValueError: a slot name stands twice.
    """
    ordered = sorted(slots, key=lambda slot: slot.name)
    if len({slot.name for slot in ordered}) != len(ordered):
        raise ValueError(f"slot names stand twice in {[slot.name for slot in ordered]}")
    return hashlib.sha256(FORMAT + b"".join(map(_slot, ordered))).hexdigest()


def slots_digest(slots: Iterable[SlotBytes], *, threads: int = 0) -> str:
    """Return the hex digest of a seat whose slots lie in memory as contiguous bytes.

    Args:
        slots: Every filled slot of the seat, in any order.
        threads: Hashing threads; 0 takes one per core. The digest does not depend on it.

    Raises:
        ValueError: a slot name stands twice.
    """
    held = [(slot, slot.data.cast("B")) for slot in slots]
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        started = [(slot, data.nbytes, pool.map(leaves, runs(data))) for slot, data in held]
        return seat_digest(
            SlotTree(slot.name, slot.dtype, slot.shape, tensor_digest(size, found)) for slot, size, found in started
        )


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">I", len(raw)) + raw


def _slot(slot: SlotTree) -> bytes:
    return _text(slot.name) + _text(slot.dtype) + _text("x".join(map(str, slot.shape))) + slot.tensor
