"""Digests of what has no file at the verifier: weights in memory, and projections of a configuration.

Weights are hashed as they are in memory, since adapters and quantisers change memory and not the checkpoint. Format
``frt-weights-v1``, all integers big-endian::

    leaf   = sha256(0x00, chunk)                        chunks of 1 MiB, the last one shorter
    tensor = sha256("frt-chunks-v1" 0x00, u64 byte count, leaf, leaf, ...)
    seat   = sha256("frt-weights-v1" 0x00, per slot in slot order:
                    u32 length and UTF-8 of the name, of the dtype, of the shape ("640,2048"; "" for a scalar),
                    u64 byte count, tensor)

Leaves do not depend on each other, so the chunks of all slots hash in parallel: ``hashlib`` lets go of the interpreter
lock. Bytes are contiguous and little-endian.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeAlias

from pytest_frt.spec.digest import json_digest

CHUNK: Final = 1 << 20
Slot: TypeAlias = tuple[str, str, Sequence[int], memoryview]
"""Name, dtype, shape and contiguous bytes of one weight slot."""
_TENSOR: Final = b"frt-chunks-v1\0"
_SEAT: Final = b"frt-weights-v1\0"
_LEAF: Final = b"\0"


def slots_digest(slots: Iterable[Slot], *, threads: int | None = None) -> str:
    """Return the frt-weights-v1 digest of a seat's slots, in the order given.

    Args:
        slots: Name, dtype name, shape and C-contiguous memory of each slot.
        threads: Hashing threads; the cores this process may use when None.

    Raises:
        ValueError: a memory block is not contiguous.
    """
    held = [(name, dtype, shape, _flat(memory)) for name, dtype, shape, memory in slots]
    chunks = [memory[start : start + CHUNK] for *_, memory in held for start in range(0, memory.nbytes, CHUNK)]
    leaves = iter(_leaves(chunks, threads or len(os.sched_getaffinity(0))))
    seat = hashlib.sha256(_SEAT)
    for name, dtype, shape, memory in held:
        size = memory.nbytes.to_bytes(8, "big")
        tensor = hashlib.sha256(_TENSOR + size)
        for leaf in islice(leaves, -(-memory.nbytes // CHUNK)):
            tensor.update(leaf)
        for text in (name, dtype, ",".join(str(extent) for extent in shape)):
            data = text.encode()
            seat.update(len(data).to_bytes(4, "big") + data)
        seat.update(size + tensor.digest())
    return seat.hexdigest()


def canonical_digest(value: object) -> str:
    """Return the sha256 over canonical JSON (sorted keys, no blanks, UTF-8), e.g. of a configuration projection.

    Raises:
        ValueError: NaN or an infinity.
    """
    return json_digest(value)


def _flat(memory: memoryview) -> memoryview:
    if not memory.c_contiguous:
        raise ValueError(f"memory of shape {memory.shape} is not contiguous")
    # A view with an extent of zero cannot be cast.
    return memory.cast("B") if memory.nbytes else memoryview(b"")


def _leaf(chunk: memoryview) -> bytes:
    sha = hashlib.sha256(_LEAF)
    sha.update(chunk)
    return sha.digest()


def _leaves(chunks: Sequence[memoryview], threads: int) -> list[bytes]:
    if threads == 1 or len(chunks) <= 1:
        return [_leaf(chunk) for chunk in chunks]
    with ThreadPoolExecutor(max_workers=min(threads, len(chunks))) as pool:
        return list(pool.map(_leaf, chunks))
