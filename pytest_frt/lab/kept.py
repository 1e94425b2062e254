"""Outputs that timed regions left, compared with those of the witness; numpy only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from pytest_frt.errors import EvidenceError

OUTPUT: Final = "output"
"""Name of the one tensor of a kept file."""
_HEADER_BYTES: Final = 4096
Values = NDArray[np.float64]


def take(path: Path, *, at_most: int | None = None) -> Values:
    """Read a kept output as a float64 vector and remove its file.

    Args:
        path: A file that code under test may have written.
        at_most: Elements it may hold.

    Raises:
        EvidenceError: the file is no kept output, or is longer.
    """
    try:
        size = path.stat().st_size
        if at_most is not None and size > 4 * at_most + _HEADER_BYTES:
            raise EvidenceError(f"kept output {path} has {size} bytes for at most {at_most} float32 values")
        values = load_file(path)[OUTPUT].astype(np.float64).ravel()
        path.unlink()
    except (OSError, SafetensorError, KeyError) as fault:
        raise EvidenceError(f"kept output {path} cannot be read: {fault!r}") from fault
    return values


def agreement(want: Values, have: Values) -> float:
    """Return the cosine of two outputs; 0 when their sizes differ or either holds NaN or infinity."""
    if want.shape != have.shape or not (np.isfinite(want).all() and np.isfinite(have).all()):
        return 0.0
    norm = float(np.linalg.norm(want) * np.linalg.norm(have))
    if norm == 0.0:
        return 1.0 if np.array_equal(want, have) else 0.0
    return min(1.0, float(want @ have) / norm)
