"""Bound parts at their bare seams: what they return, and what they do to tensors that are not theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from pytest_frt.contracts.evidence import CandidateEvidence, Conduct
from pytest_frt.errors import FrtError
from pytest_frt.lab import calls, seam
from pytest_frt.lab.calls import Call, Given
from pytest_frt.lab.layouts import FEW, WIDE, Laid, difference, layouts, misplaced
from pytest_frt.lab.poison import FILLS, poisoned
from pytest_frt.seat.bind import BoundSeat

HELD_CALLS: Final = 8
"""Outputs held at the same time: a part that cycles through fewer buffers of its own is seen writing into one again."""
HELD_AGAIN: Final = 3
"""Outputs held at every further height: two calls show a buffer, and one more a pair of them that take turns."""
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


def joined(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return the outputs of several calls, each joined along its first axis."""
    return tuple(_cat(column) for column in zip(*parts, strict=True))


def misfit(bound: BoundSeat, x: Tensor, value: object) -> str:
    """Say how a returned value differs from one tensor per output, in the shape and dtype of the seam; empty if not."""
    outputs = value if isinstance(value, tuple | list) else (value,)
    # A subclass may put its values off until somebody looks at them.
    found = [(tuple(t.shape), t.dtype) if type(t) is Tensor else type(t).__name__ for t in outputs]
    wanted = [(shape, x.dtype) for shape in bound.shapes(x)]
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
        self,
        bound: BoundSeat,
        real: Sequence[Given],
        cases: Iterable[tuple[str, Given]],
        band: tuple[int, int],
    ) -> None:
        """Run one bound seat on its real rows and its cases, up to the first fault that makes the rest pointless.

        Args:
            bound: The seat.
            real: Rows ``x[R, K]`` that the host fed it, in groups that had the same other inputs.
            cases: Name and call.
            band: Inclusive admitted row counts.
        """
        if fed := [call for group in real for call in calls.parts(group, band)]:
            answers = [self._call(bound, call, REAL) for call in fed]
            whole = [answer for answer in answers if answer is not None]
            if len(whole) < len(answers):
                return
            outputs = joined(whole)
            self._keep(REAL, bound, outputs)
            self._aliasing(bound, fed)
            self._conduct(bound, fed, outputs)
        raises = bound.facts.id in self.conduct and bool(self.conduct[bound.facts.id].raised)
        for name, inputs in cases:
            try:
                answer = self._call(bound, calls.of(inputs), name)
            except RAISED:
                if raises:  # known already, and said with the layout
                    continue
                raise
            if answer is None:
                return
            self._keep(f"case/{name}", bound, answer)

    def _call(self, bound: BoundSeat, call: Call, case: str) -> tuple[Tensor, ...] | None:
        kept, at = call.each(_clone), f"{bound.facts.id}|{case}"
        value = bound.module(*call.tensors)
        if not _same(kept.tensors, call.tensors):
            self.mutated.append(at)
            return None
        if fault := misfit(bound, call.x, value):
            self.shapes.append(f"{at}: {fault}")
            return None
        outputs = seam.as_tuple(value)
        if fault := next(filter(None, (misplaced(given, outputs) for given in call.tensors)), ""):
            self.misplaced.append(f"{at}: {fault}")
            return None
        return outputs

    def _keep(self, prefix: str, bound: BoundSeat, outputs: tuple[Tensor, ...]) -> None:
        for index, output in enumerate(outputs):
            suffix = f"#{index}" if len(outputs) > 1 else ""
            self.outputs[f"{prefix}/{bound.facts.id}{suffix}"] = _clone(output.detach()).contiguous()

    def _conduct(self, bound: BoundSeat, fed: Sequence[Call], real: tuple[Tensor, ...]) -> None:
        """Run the real rows again under both fills, and the layouts once per kind of seat."""
        seat, repeated = bound.facts.id, self._repeated(bound, fed, real)
        kind = f"{bound.impl} {bound.scheme} {bound.facts.structure} {bound.facts.dims} {bound.facts.variant}"
        known = self._kinds.get(kind)
        if known is None:
            mates, heights = self._mates(bound, fed)
            known = Conduct(seat, 0, 0.0, carried=False, mates=mates, mates_rows=heights, **self._layouts(bound, fed))
            self._kinds[kind] = known
        self.conduct[seat] = replace(known, seat=seat, runs=1 + len(FILLS), **repeated)

    def _repeated(self, bound: BoundSeat, fed: Sequence[Call], real: tuple[Tensor, ...]) -> dict[str, Any]:
        """Compare the first pass with one under each fill; where bits differ, find out why.

        A part that reads unwritten memory gives the same under the same fill again; one that keeps something from call
        to call gives the same in every pass but the first; one that does neither is not repeatable.
        """

        def again(fill: int | None = None) -> tuple[Tensor, ...]:
            with poisoned(fill) if fill is not None else nullcontext():
                return joined([seam.as_tuple(bound.module(*call.tensors)) for call in fed])

        filled = [again(fill) for fill in FILLS]
        if all(_same(real, one) for one in filled):
            return {"repeat": 0.0, "carried": False}
        if not _same(*filled) and all(_same(one, again(fill)) for one, fill in zip(filled, FILLS, strict=True)):
            self.poison.append(bound.facts.id)
            return {"repeat": 0.0, "carried": False}
        later = again()
        spread = max(difference(one, real) for one in (*filled, later))
        return {"repeat": max(spread, SMALLEST), "carried": _same(later, filled[-1])}

    def _layouts(self, bound: BoundSeat, fed: Sequence[Call]) -> dict[str, Any]:
        """Compare every layout with a contiguous call on the same values; NaN lies between and behind them."""
        found: dict[str, float] = {}
        raised: dict[str, str] = {}
        shapes: dict[str, str] = {}
        base: dict[str, tuple[Tensor, ...] | None] = {}
        wanted = next((call for call in fed if call.rows >= LAYOUT_ROWS), fed[-1])
        for laid, call, twin in _laid(wanted, few=sum(bound.outputs) >= WIDE):
            kept, known = _clone(laid.storage), len(self.shapes)
            try:
                if laid.values not in base:
                    base[laid.values] = _cloned(self._call(bound, twin, laid.name))
                want, got = base[laid.values], self._call(bound, call, laid.name)
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
    def _mates(bound: BoundSeat, fed: Sequence[Call]) -> tuple[float, tuple[int, int]]:
        """Compare rows in the tallest call with the same rows in the lowest one."""
        heights = [call.rows for call in fed]
        low, tall = min(heights), fed[heights.index(max(heights))]
        short = tall.given(tall.x[:low])
        many = seam.as_tuple(bound.module(*tall.tensors))
        few = tuple(map(_clone, seam.as_tuple(bound.module(*short.tensors))))
        return difference(few, tuple(output[:low] for output in many)), (low, max(heights))

    def _aliasing(self, bound: BoundSeat, fed: Sequence[Call]) -> None:
        """Hold outputs of each height while others are computed: a buffer may be kept for some heights only."""
        first, *others = {call.rows: call for call in reversed(fed)}.values()
        turns = [(first, HELD_CALLS), *((call, HELD_AGAIN) for call in others)]
        held = [one for call, count in turns for one in self._held(bound, call, count)]
        if not all(same_bits(output, kept) for output, kept in held):
            self.aliased.append(bound.facts.id)

    @staticmethod
    def _held(bound: BoundSeat, call: Call, turns: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield outputs of calls on different inputs of one shape, each with a copy of what it held at first."""
        for turn in range(turns):
            other = call.each(lambda given: given + float(turn))  # noqa: B023 (called here only)
            for output in seam.as_tuple(bound.module(*other.tensors)):
                yield output, _clone(output)


def _laid(call: Call, *, few: bool) -> Iterator[tuple[Laid, Call, Call]]:
    """Yield a call with one of its inputs in every layout, and the same call in contiguous memory.

    Of the inputs that come with ``x``, and where ``few`` is set of ``x``, only the layouts that no vector load fits.
    """
    for laid in layouts(_clone(call.x).contiguous()):
        if not few or laid.name in FEW:
            yield laid, call.given(laid.x), call.given(laid.twin)
    for place, side in enumerate(call.sides):
        for laid in layouts(_clone(side).contiguous()):
            if laid.name in FEW:
                named = replace(laid, name=f"side_{place + 1}_{laid.name}")
                before, after = call.sides[:place], call.sides[place + 1 :]
                yield named, Call(call.x, (*before, laid.x, *after)), Call(call.x, (*before, laid.twin, *after))
