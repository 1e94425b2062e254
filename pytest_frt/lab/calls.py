"""Calls of a seat: the input whose rows are counted, and the tensors that come with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from pytest_frt.lab import seam
from pytest_frt.seat.guard import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from pytest_frt.contracts.seat import SeatFacts

    Outputs = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        x: The first input of the structure, ``[..., K]``: its leading axes are rows.
        sides: The other inputs, in the structure's order; each belongs to the whole call, ``[1, C]``.
    """

    x: Tensor
    sides: Outputs = ()

    @property
    def tensors(self) -> Outputs:
        """Every input, in the structure's order."""
        return (self.x, *self.sides)

    @property
    def rows(self) -> int:
        """Product of the leading axes of ``x``."""
        return rows_of(self.x)

    def given(self, x: Tensor) -> Call:
        """Return this call with another ``x``."""
        return Call(x, self.sides)

    def each(self, change: Callable[[Tensor], Tensor]) -> Call:
        """Return the call with every tensor changed."""
        return Call(change(self.x), tuple(map(change, self.sides)))


Given = Tensor | Call
"""A call as its one input, or with the tensors that come with it."""


def of(given: Given) -> Call:
    """Return ``given`` as a call."""
    return Call(given) if isinstance(given, Tensor) else given


def parts(given: Given, band: tuple[int, int]) -> list[Call]:
    """Return calls whose rows lie in ``band`` and cover those of ``given`` (``x[R, K]``) in turn.

    Args:
        given: Rows of calls that had the same other inputs.
        band: Inclusive admitted row counts.
    """
    whole = of(given)
    return [whole.given(whole.x[start:stop]) for start, stop in seam.splits(whole.x.shape[0], band)]


def case_calls(
    cases: ModuleType, facts: SeatFacts, inputs: Sequence[str], band: tuple[int, int], seed: int
) -> Iterator[tuple[str, Call]]:
    """Yield name and call of a structure's discriminating cases whose rows the band admits (and M = 0).

    Args:
        cases: The structure's cases.py.
        facts: The seat.
        inputs: Names of the structure's inputs, in its order.
        band: Inclusive admitted row counts.
        seed: Of the draws.
    """
    first, *others = inputs
    for name, tensors in seam.admitted(cases, facts, first, band, seed):
        yield name, Call(tensors[first], tuple(tensors[other] for other in others))


def saved(phase: str, seat: str, groups: Sequence[Call]) -> Iterator[tuple[str, Tensor]]:
    """Yield key and tensor of what a seat was called with; :func:`read` finds them again."""
    for index, group in enumerate(groups):
        at = f"{phase}/{seat}" if not group.sides else f"{phase}/{seat}@{index}"
        yield at, group.x
        for place, side in enumerate(group.sides, start=1):
            yield f"{at}@{place}", side


def read(held: Mapping[str, Tensor], phase: str, seat: str, inputs: int) -> list[Call]:
    """Return what a seat was called with: rows of calls that had the same other inputs, one entry per such group.

    Args:
        held: What :func:`saved` gave.
        phase: Row regime.
        seat: Seat id.
        inputs: Inputs of its structure.
    """
    at = f"{phase}/{seat}"
    if inputs == 1:
        return [Call(held[at])] if at in held else []
    groups: list[Call] = []
    while (key := f"{at}@{len(groups)}") in held:
        groups.append(Call(held[key], tuple(held[f"{key}@{place}"] for place in range(1, inputs))))
    return groups
