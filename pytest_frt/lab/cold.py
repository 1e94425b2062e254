"""Cold caches: between samples, outside the timed region, more memory is touched than the last-level cache holds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import torch

from pytest_frt.errors import EvidenceError
from pytest_frt.lab.canary import synchronizer

FACTOR: Final = 2
"""Cache sizes that are touched: a replacement that is not least-recently-used keeps some of the old lines after one."""
CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(text: str) -> int:
    """Read a size as Linux writes it, such as ``32768K``."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] if unit in _UNITS and number.isdecimal() else 0


def last_level_bytes(device: str, caches: Path = CACHES) -> int:
    """Return the size of the largest cache of ``device``.

    Raises:
        EvidenceError: the machine does not say.
    """
    if torch.device(device).type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [_bytes(file.read_text(encoding="ascii").strip()) for file in caches.glob("index*/size")]
    if not any(sizes):
        raise EvidenceError(f"{caches} states no cache size: cold caches cannot be made here", hint="judge hot records")
    return max(sizes)


class Flush:
    """Touches a buffer of twice the last-level cache, on references taken before impl code is imported.

    Args:
        device: torch device string.

    Raises:
        EvidenceError: as :func:`last_level_bytes`.
    """

    def __init__(self, device: str) -> None:
        # Ones, not zeros: pages that were never written are in no memory, and nobody would count them.
        self._buffer = torch.ones(FACTOR * last_level_bytes(device) // 4, device=device)
        self._add, self._wait = torch.Tensor.add_, synchronizer(device)

    @property
    def nbytes(self) -> int:
        """Bytes that are read and written by each :meth:`run`."""
        return self._buffer.nbytes

    def run(self) -> None:
        """Read and write every byte of the buffer, on all threads, and wait for it."""
        self._add(self._buffer, 1.0)
        self._wait()
