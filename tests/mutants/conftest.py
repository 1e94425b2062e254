"""Judges mutants on one thread."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread(_own_threads: None) -> None:
    torch.set_num_threads(1)  # seats are small: a second thread only waits
