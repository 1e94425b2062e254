"""Bound parts at their bare seams: what they return, and what they do to tensors that are not theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import torch
from torch import Tensor

from pytest_frt.lab import seam
from pytest_frt.lab.poison import FILLS, poisoned
from pytest_frt.seat.bind import BoundSeat

HELD_CALLS: Final = 8
"""Outputs held at the same time: a part that cycles through fewer buffers of its own is seen writing into one again."""
REAL: Final = "real"
_equal, _clone, _cat, _uint8 = torch.equal, torch.Tensor.clone, torch.cat, torch.uint8
"""References from before any impl code runs: replacing torch's own hides nothing."""


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Report whether two tensors hold the same bits; NaN equals itself here."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    left, right = left.contiguous().view(-1), right.contiguous().view(-1)
    return _equal(left.view(_uint8), right.view(_uint8))


def misfit(bound: BoundSeat, x: Tensor, value: object) -> str:
    """Say how a returned value differs from one tensor per output, in the shape and dtype of the seam; empty if not."""
    outputs = value if isinstance(value, tuple | list) else (value,)
    found = [(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else type(t).__name__ for t in outputs]
    wanted = [((*x.shape[:-1], width), x.dtype) for width in bound.outputs]
    return "" if found == wanted else f"{found} for {wanted}"


class SeamRun:
    """Runs every bound part at its bare seam and collects outputs and faults.

    Attributes:
        outputs: Evidence key to tensor.
        mutated: ``seat|case`` whose input changed during the call.
        poison: Seat ids whose outputs depend on unwritten memory.
        aliased: Seat ids that wrote again into a tensor they had returned.
        shapes: ``seat|case`` with a wrong count, shape or dtype of outputs, with both.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, Tensor] = {}
        self.mutated: list[str] = []
        self.poison: list[str] = []
        self.aliased: list[str] = []
        self.shapes: list[str] = []

    @property
    def faulty(self) -> bool:
        """True when some seat is refused already: the host is then run again without it."""
        return any((self.mutated, self.poison, self.aliased, self.shapes))

    def part(
        self, bound: BoundSeat, x: Tensor | None, cases: Iterable[tuple[str, Tensor]], band: tuple[int, int]
    ) -> None:
        """Run one bound seat on its real rows and its cases, up to the first fault that makes the rest pointless."""
        if x is not None:
            real = self._split(bound, x, band)
            if real is None:
                return
            self._keep(REAL, bound, real)
            self._poison(bound, x, band)
            self._aliasing(bound, x, band)
        for name, inputs in cases:
            outputs = self._call(bound, inputs, name)
            if outputs is None:
                return
            self._keep(f"case/{name}", bound, outputs)

    def _call(self, bound: BoundSeat, x: Tensor, case: str) -> tuple[Tensor, ...] | None:
        kept, at = _clone(x), f"{bound.facts.id}|{case}"
        value = bound.module(x)
        if not same_bits(kept, x):
            self.mutated.append(at)
            return None
        if fault := misfit(bound, x, value):
            self.shapes.append(f"{at}: {fault}")
            return None
        return seam.as_tuple(value)

    def _split(self, bound: BoundSeat, x: Tensor, band: tuple[int, int]) -> tuple[Tensor, ...] | None:
        parts = [self._call(bound, x[start:stop], REAL) for start, stop in seam.splits(x.shape[0], band)]
        whole = [part for part in parts if part is not None]
        if len(whole) < len(parts):
            return None
        return tuple(_cat(column) for column in zip(*whole, strict=True))

    def _keep(self, prefix: str, bound: BoundSeat, outputs: tuple[Tensor, ...]) -> None:
        for index, output in enumerate(outputs):
            suffix = f"#{index}" if len(outputs) > 1 else ""
            self.outputs[f"{prefix}/{bound.facts.id}{suffix}"] = _clone(output.detach()).contiguous()

    def _poison(self, bound: BoundSeat, x: Tensor, band: tuple[int, int]) -> None:
        seen: list[tuple[Tensor, ...]] = []
        for fill in FILLS:
            with poisoned(fill):
                seen.append(tuple(map(_clone, seam.run_real(bound.module, x, band))))
        if not all(same_bits(a, b) for a, b in zip(*seen, strict=True)):
            self.poison.append(bound.facts.id)

    def _aliasing(self, bound: BoundSeat, x: Tensor, band: tuple[int, int]) -> None:
        held = list(self._held(bound, x, band))
        if not all(same_bits(output, kept) for output, kept in held):
            self.aliased.append(bound.facts.id)

    @staticmethod
    def _held(bound: BoundSeat, x: Tensor, band: tuple[int, int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield outputs of calls on different inputs of one shape, each with a copy of what it held at first."""
        start, stop = next(iter(seam.splits(x.shape[0], band)), (0, 0))
        for turn in range(HELD_CALLS):
            for output in seam.as_tuple(bound.module(x[start:stop] + float(turn))):
                yield output, _clone(output)
