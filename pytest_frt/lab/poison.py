"""Fill what the C allocator hands out with a known byte, so that reading unwritten memory shows."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

M_PERTURB = -6
"""glibc ``mallopt`` parameter: fresh memory is filled with the complement of the value's low byte."""
NAN_FILL = 0x100
"""Low byte 0, so fresh memory reads 0xFF: NaN in every float format."""
HUGE_FILL = 0x80
"""Fresh memory reads 0x7F: large finite numbers, and NaN in e4m3."""
FILLS = (NAN_FILL, HUGE_FILL)


def _set(value: int) -> bool:
    libc = ctypes.CDLL(None)
    try:
        mallopt = libc.mallopt
    except AttributeError:
        return False
    return bool(mallopt(M_PERTURB, value))


@contextmanager
def poisoned(fill: int) -> Iterator[bool]:
    """Poison fresh heap memory while the block runs.

    Args:
        fill: One of ``FILLS``.

    Yields:
        False where the C library has no such switch; the check is then reported as not run.
    """
    active = _set(fill)
    try:
        yield active
    finally:
        if active:
            _set(0)
