"""Samples of a host go to calibration, judging and timing in the declared numbers, none twice; too few are refused."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from pytest_frt.errors import EvidenceError
from pytest_frt.lab.hosting import Hosting, Split, sample_digest, split

REF: Any = SimpleNamespace(request=None)
TIMING = 4


def drawn(distinct: int, repeats: int = 1) -> Split:
    """Split the samples of a host that declares 2 of calibration and 3 held out, and yields each ``repeats`` times."""

    def samples(_request: object) -> Iterator[dict[str, torch.Tensor]]:
        for value in range(distinct):
            yield from ({"x": torch.tensor([value])} for _ in range(repeats))

    spec: Any = SimpleNamespace(name="toy", calibration_samples=2, heldout_samples=3)
    program: Any = SimpleNamespace(samples=samples)
    return split(Hosting(spec, program, nn.Module()), REF, timing=TIMING)


@pytest.mark.parametrize("repeats", [1, 3])
def test_samples_are_split_in_the_declared_numbers(repeats: int) -> None:
    found = drawn(2 + 3 + TIMING, repeats)
    parts = (found.calibration, found.heldout, found.timing)
    assert [len(part) for part in parts] == [2, 3, TIMING]
    assert len({sample_digest(sample) for part in parts for sample in part}) == 2 + 3 + TIMING


@pytest.mark.parametrize("repeats", [1, 3])
def test_host_of_fewer_distinct_samples_than_declared_is_refused(repeats: int) -> None:
    said = r"host toy yields 8 distinct samples, needs 9 \(2 calibration \+ 3 held-out \+ 4 timing\)"
    with pytest.raises(EvidenceError, match=said):
        drawn(2 + 3 + TIMING - 1, repeats)
