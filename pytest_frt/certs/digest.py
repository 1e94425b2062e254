"""Digests of what has no file at the verifier: weights in memory, and projections of a configuration.

One format exists for each, in ``spec``; this is its door for code that holds certificates. Weights are hashed as they
are in memory (``frt-weights-v1``, a chunk tree), since adapters and quantisers change memory and not the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pytest_frt.spec import weights_digest
from pytest_frt.spec.digest import json_digest

Slot: TypeAlias = tuple[str, str, Sequence[int], memoryview]
"""Name, dtype, shape and C-contiguous bytes of one weight slot."""


def slots_digest(slots: Iterable[Slot], *, threads: int = 0) -> str:
    """Return the frt-weights-v1 digest of a seat's slots, in any order.

    Args:
        slots: Every filled slot of the seat.
        threads: Hashing threads; 0 takes one per core.

    Raises:
        ValueError: a slot name stands twice.
    """
    held = (
        weights_digest.SlotBytes(name, dtype, tuple(shape), memory.cast("B") if memory.nbytes else memoryview(b""))
        for name, dtype, shape, memory in slots
    )
    return weights_digest.slots_digest(held, threads=threads)


def canonical_digest(value: object) -> str:
    """Return the sha256 over canonical JSON (sorted keys, no blanks, UTF-8), e.g. of a configuration projection.

    Raises:
        ValueError: NaN or an infinity.
    """
    return json_digest(value)
