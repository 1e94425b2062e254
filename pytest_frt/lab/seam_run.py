"""Bound parts at their bare seams: what they return, and what they do to tensors that are not theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from pytest_frt.contracts.evidence import CandidateEvidence, Conduct
from pytest_frt.errors import FrtError
from pytest_frt.lab import seam
from pytest_frt.lab.layouts import FEW, WIDE, difference, layouts, misplaced
from pytest_frt.lab.poison import FILLS, poisoned
from pytest_frt.seat.bind import BoundSeat

HELD_CALLS: Final = 8
"""Outputs held at the same time: a part that cycles through fewer buffers of its own is seen writing into one again."""
REAL: Final = "real"
SMALLEST: Final = 1e-12
"""Stands for a difference in bits that no float64 norm shows, such as the sign of a zero: 0 says bit-equal."""
RAISED: Final = (FrtError, RuntimeError, ValueError)
"""What torch and impls say of a form that they cannot take."""
LAYOUT_ROWS: Final = 3
"""Rows of the layouts where the band allows it: odd, and no multiple of a tile."""
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
    # A subclass may put its values off until somebody looks at them.
    found = [(tuple(t.shape), t.dtype) if type(t) is Tensor else type(t).__name__ for t in outputs]
    wanted = [((*x.shape[:-1], width), x.dtype) for width in bound.outputs]
    if found != wanted:
        return f"{found} for {wanted}"
    elsewhere = {str(t.device) for t in outputs if t.device != x.device}
    return f"on {', '.join(sorted(elsewhere))} for {x.device}" if elsewhere else ""


def _same(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> bool:
    return all(same_bits(a, b) for a, b in zip(left, right, strict=True))


def _cloned(outputs: tuple[Tensor, ...] | None) -> tuple[Tensor, ...] | None:
    return None if outputs is None else tuple(map(_clone, outputs))


class SeamRun:
    """Runs every bound part at its bare seam and collects outputs and faults.

    Attributes:
        outputs: Evidence key to tensor.
        mutated: ``seat|case`` whose input changed during the call.
        poison: Seat ids whose outputs depend on unwritten memory.
        aliased: Seat ids that wrote again into a tensor they had returned.
        shapes: ``seat|case`` with a wrong count, shape or dtype of outputs, with both.
        misplaced: ``seat|case`` whose outputs lie in memory that is not theirs alone, with what is wrong.
        conduct: Seat id to its conduct.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, Tensor] = {}
        self.mutated: list[str] = []
        self.poison: list[str] = []
        self.aliased: list[str] = []
        self.shapes: list[str] = []
        self.misplaced: list[str] = []
        self.conduct: dict[str, Conduct] = {}
        self._kinds: dict[str, Conduct] = {}

    @property
    def faulty(self) -> bool:
        """True when some seat is refused already: the host is then run again without it."""
        raised = any(one.raised or one.shapes for one in self.conduct.values())
        return raised or any((self.mutated, self.poison, self.aliased, self.shapes, self.misplaced))

    def evidence(self, bound: Iterable[str]) -> CandidateEvidence:
        """Return what the seams alone say: nothing is composed, nothing of bind, kernel, weights or ledger is known.

        Args:
            bound: Ids of the seats that were bound.
        """
        return CandidateEvidence(
            bound=tuple(bound),
            refused=(),
            kernel={},
            closure=(),
            calibration=None,
            ledger=(),
            mutated=tuple(self.mutated),
            poison_differing=tuple(self.poison),
            aliased=tuple(self.aliased),
            shapes_wrong=tuple(self.shapes),
            lifecycle=(),
            seconds=0.0,
            composed=False,
            conduct=tuple(self.conduct.values()),
            misplaced=tuple(self.misplaced),
        )

    def part(
        self, bound: BoundSeat, x: Tensor | None, cases: Iterable[tuple[str, Tensor]], band: tuple[int, int]
    ) -> None:
        """Run one bound seat on its real rows and its cases, up to the first fault that makes the rest pointless."""
        if x is not None:
            real = self._split(bound, x, band)
            if real is None:
                return
            self._keep(REAL, bound, real)
            self._aliasing(bound, x, band)
            self._conduct(bound, x, band, real)
        raises = bound.facts.id in self.conduct and bool(self.conduct[bound.facts.id].raised)
        for name, inputs in cases:
            try:
                outputs = self._call(bound, inputs, name)
            except RAISED:
                if raises:  # known already, and said with the layout
                    continue
                raise
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
        outputs = seam.as_tuple(value)
        if fault := misplaced(x, outputs):
            self.misplaced.append(f"{at}: {fault}")
            return None
        return outputs

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

    def _conduct(self, bound: BoundSeat, x: Tensor, band: tuple[int, int], real: tuple[Tensor, ...]) -> None:
        """Run the real rows again under both fills, and the layouts once per kind of seat."""
        seat, repeated = bound.facts.id, self._repeated(bound, x, band, real)
        kind = f"{bound.impl} {bound.scheme} {bound.facts.structure} {bound.facts.dims} {bound.facts.variant}"
        known = self._kinds.get(kind)
        if known is None:
            calls = [x[start:stop] for start, stop in seam.splits(x.shape[0], band)]
            mates, heights = self._mates(bound, calls)
            known = Conduct(seat, 0, 0.0, carried=False, mates=mates, mates_rows=heights, **self._layouts(bound, calls))
            self._kinds[kind] = known
        self.conduct[seat] = replace(known, seat=seat, runs=1 + len(FILLS), **repeated)

    def _repeated(self, bound: BoundSeat, x: Tensor, band: tuple[int, int], real: tuple[Tensor, ...]) -> dict[str, Any]:
        """Compare the first pass with one under each fill; where bits differ, find out why.

        A part that reads unwritten memory gives the same under the same fill again; one that keeps something from call
        to call gives the same in every pass but the first; one that does neither is not repeatable.
        """

        def again(fill: int | None = None) -> tuple[Tensor, ...]:
            with poisoned(fill) if fill is not None else nullcontext():
                return tuple(map(_clone, seam.run_real(bound.module, x, band)))

        filled = [again(fill) for fill in FILLS]
        if all(_same(real, one) for one in filled):
            return {"repeat": 0.0, "carried": False}
        if not _same(*filled) and all(_same(one, again(fill)) for one, fill in zip(filled, FILLS, strict=True)):
            self.poison.append(bound.facts.id)
            return {"repeat": 0.0, "carried": False}
        later = again()
        spread = max(difference(one, real) for one in (*filled, later))
        return {"repeat": max(spread, SMALLEST), "carried": _same(later, filled[-1])}

    def _layouts(self, bound: BoundSeat, calls: list[Tensor]) -> dict[str, Any]:
        """Compare every layout with a contiguous call on the same values; NaN lies between and behind them."""
        found: dict[str, float] = {}
        raised: dict[str, str] = {}
        shapes: dict[str, str] = {}
        base: dict[str, tuple[Tensor, ...] | None] = {}
        wanted = [call for call in calls if call.shape[0] >= LAYOUT_ROWS] or calls[-1:]
        for laid in layouts(_clone(wanted[0]).contiguous()) if wanted else ():
            if sum(bound.outputs) >= WIDE and laid.name not in FEW:
                continue
            kept, known = _clone(laid.storage), len(self.shapes)
            try:
                if laid.values not in base:
                    base[laid.values] = _cloned(self._call(bound, laid.twin, laid.name))
                want, got = base[laid.values], self._call(bound, laid.x, laid.name)
            except RAISED as fault:
                raised[laid.name] = f"{type(fault).__name__}: {fault}"
                continue
            if not same_bits(kept, laid.storage):
                self.mutated.append(f"{bound.facts.id}|{laid.name}: around it")
            if len(self.shapes) > known:  # said of the layout: real rows had the right shape
                shapes[laid.name] = self.shapes[known]
                del self.shapes[known:]
            if want is None or got is None:
                continue
            found[laid.name] = 0.0 if _same(got, want) else max(difference(got, want), SMALLEST)
        return {"layouts": found, "raised": raised, "shapes": shapes}

    @staticmethod
    def _mates(bound: BoundSeat, calls: list[Tensor]) -> tuple[float, tuple[int, int]]:
        """Compare rows in the tallest call with the same rows in the lowest one."""
        heights = [call.shape[0] for call in calls]
        if not heights:
            return 0.0, (0, 0)
        low, tall = min(heights), calls[heights.index(max(heights))]
        many, few = seam.as_tuple(bound.module(tall)), tuple(map(_clone, seam.as_tuple(bound.module(tall[:low]))))
        return difference(few, tuple(output[:low] for output in many)), (low, max(heights))

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
