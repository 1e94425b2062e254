"""Kept outputs are compared in float64, taken off the disk, and nothing bad in them passes as agreement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pytest_frt.errors import EvidenceError
from pytest_frt.lab.kept import agreement, take

GOOD = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (GOOD, 1.0),
        (-GOOD, -1.0),
        (np.zeros(3), 0.0),
        (np.array([1.0, np.nan, 3.0]), 0.0),
        (np.array([1.0, np.inf, 3.0]), 0.0),
        (GOOD[:2], 0.0),
    ],
    ids=["same", "negated", "zeros", "nan", "infinity", "short"],
)
def test_agreement(got: np.ndarray, expected: float) -> None:
    assert agreement(GOOD, got) == pytest.approx(expected)


def test_taken_output_leaves_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    save_file({"output": GOOD.astype(np.float32).reshape(1, 3)}, file)
    assert np.array_equal(take(file, at_most=3), GOOD)
    assert not file.exists()


@pytest.mark.parametrize("spoil", ["absent", "garbage", "other_name", "too_long"])
def test_file_that_is_no_output_is_named(tmp_path: Path, spoil: str) -> None:
    file = tmp_path / "kept"
    if spoil == "garbage":
        file.write_bytes(b"\xff" * 64)
    elif spoil == "other_name":
        save_file({"x": GOOD}, file)
    elif spoil == "too_long":
        save_file({"output": np.zeros(10_000, np.float32)}, file)
    with pytest.raises(EvidenceError, match=r"kept output .*kept"):
        take(file, at_most=3)
