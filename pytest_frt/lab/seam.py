"""Run a bound part at the bare seam: same inputs and same row splits for the candidate and for the oracle."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pytest_frt.seat.guard import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from pytest_frt.contracts.seat import SeatFacts

SEAM_ELEMENTS = 8_388_608
"""Most output elements kept per seat (32 MiB of float32): a vocabulary head keeps fewer rows than an FFN."""
INDEX_LIMIT = 2**31
"""Elements of one tensor from which a signed 32-bit offset wraps around."""
STACKED_ROWS = 256
"""Rows that a row-wise reference is given at once: as many as the tallest case has."""
MOST_CASE_ROWS = 256
"""Tallest case: open-ended bands stop here, and wide outputs lower (``row_limit``)."""
SHORT_ROWS = 8
"""Bands up to this height are fed every row count they admit in turn; taller ones get their rows in one call."""


def row_limit(seat: SeatFacts, seam_rows: int) -> int:
    """Return how many rows to keep for a seat so that its outputs stay under ``SEAM_ELEMENTS``."""
    return max(1, min(seam_rows, SEAM_ELEMENTS // max(seat.dims.values())))


def largest_index(rows: tuple[int, int], dims: Mapping[str, int]) -> int:
    """Return the elements of the largest tensor that a seat may meet: its tallest admitted call, its widest dimension.

    Args:
        rows: Inclusive admitted row counts.
        dims: Symbol to size.
    """
    return rows[1] * max(dims.values(), default=1)


def splits(rows: int, band: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield ``(start, stop)`` row ranges whose heights lie in ``band`` and cover it in turn.

    Args:
        rows: Rows at hand.
        band: Inclusive admitted row counts.
    """
    low, high = max(band[0], 1), band[1]
    heights = cycle(range(low, high + 1)) if high <= SHORT_ROWS else cycle((high,))
    start = 0
    while start < rows:
        stop = min(rows, start + next(heights))
        if stop - start >= low:
            yield start, stop
        start = stop


def case_inputs(cases: ModuleType, facts: SeatFacts, band: tuple[int, int], seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yield name and ``x`` of a structure's discriminating cases whose rows the band admits (and M = 0)."""
    for name, inputs in admitted(cases, facts, "x", band, seed):
        yield name, inputs["x"]


def admitted(
    cases: ModuleType, facts: SeatFacts, first: str, band: tuple[int, int], seed: int
) -> Iterator[tuple[str, Mapping[str, Tensor]]]:
    """Yield name and inputs of the cases whose first input has as many rows as the band admits, or none."""
    most = row_limit(facts, MOST_CASE_ROWS)
    for case in cases.cases(facts.dims, band, facts.variant, seed=seed, most_rows=most):
        x = case.inputs[first]
        count = rows_of(x)
        if count == 0 or band[0] <= count <= band[1]:
            yield case.name, case.inputs


def as_tuple(value: Tensor | tuple[Tensor, ...] | list[Tensor]) -> tuple[Tensor, ...]:
    """Return the outputs of a structure as a tuple."""
    return (value,) if isinstance(value, Tensor) else tuple(value)


def run_real(
    call: Callable[[Tensor], Tensor | tuple[Tensor, ...]], x: Tensor, band: tuple[int, int]
) -> tuple[Tensor, ...]:
    """Apply ``call`` to ``x[R, K]`` in the band's splits and join the outputs row by row."""
    parts = [as_tuple(call(x[start:stop])) for start, stop in splits(x.shape[0], band)]
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))


def row_by_row(call: Callable[[Tensor], tuple[Tensor, ...]], calls: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """Return what a row-wise ``call`` gives for each of ``calls[..., K]``, computed for up to ``STACKED_ROWS`` at once.

    Reading a vocabulary head in float64 costs more than multiplying with it: many rows then cost as much as one.
    """
    out: list[tuple[Tensor, ...]] = []
    stack: list[Tensor] = []
    for x in calls:
        if stack and sum(map(rows_of, (*stack, x))) > STACKED_ROWS:
            out += _stacked(call, stack)
            stack = []
        stack.append(x)
    return out + _stacked(call, stack) if stack else out


def _stacked(call: Callable[[Tensor], tuple[Tensor, ...]], calls: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    outputs = call(torch.cat([x.reshape(rows_of(x), x.shape[-1]) for x in calls]))
    columns = [torch.split(output, [rows_of(x) for x in calls]) for output in outputs]
    return [
        tuple(part.reshape(*x.shape[:-1], part.shape[-1]) for part in parts)
        for x, *parts in zip(calls, *columns, strict=True)
    ]


def covered_rows(rows: int, band: tuple[int, int]) -> int:
    """Return how many rows ``run_real`` returns for ``rows`` inputs."""
    return sum(stop - start for start, stop in splits(rows, band))
