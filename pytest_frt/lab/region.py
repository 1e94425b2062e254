"""One process's timed region of one arm: shuffled blocks and null pairs, with the machine watched around it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.kept import Values, agreement, take
from pytest_frt.lab.machine import Load
from pytest_frt.lab.timing_process import BASE, CONTENT_BITS, TimingProcess, Turn

Block = tuple[TimedPair, TimedPair]
Expected = Callable[[str, int, int], Values]
"""Given a phase, a prepared input and the content of one execution, what the untouched host returns."""


def first_base(phase: str) -> Turn:
    """Return the base's turn in a phase."""
    return Turn(BASE, phase, 0)


@dataclass(frozen=True, slots=True)
class Kept:
    """An output that was written after the fact, and what it must equal."""

    state: int
    content: int
    file: Path


@dataclass(frozen=True, slots=True)
class Draw:
    """What chance decides in a run, from the judge's generator.

    Attributes:
        rng: The judge's generator.
        phase: Row regime that is timed.
        states: Prepared inputs to draw from.
        repeats: Executions per timed region.
        keep_share: Share of regions whose output is asked for afterwards.
    """

    rng: random.Random
    phase: str
    states: int
    repeats: int
    keep_share: float

    def content(self) -> int:
        """Return what draws the values of one region."""
        return self.rng.getrandbits(CONTENT_BITS)

    def coin(self) -> bool:
        """Return a fair draw."""
        return self.rng.random() < 0.5  # noqa: PLR2004 (fair)


@dataclass(slots=True)
class ArmRun:
    """What one process has given for one arm so far.

    Attributes:
        process: The process.
        index: Its index in the evidence.
        expected: The witness's output for a prepared input and the content of an execution; None to keep nothing.
    """

    process: TimingProcess
    index: int
    expected: Expected | None
    blocks: list[Block] = field(default_factory=list)
    null: list[TimedPair] = field(default_factory=list)
    unused: list[int] = field(default_factory=list)
    agreement: float = 1.0
    load: Load = field(default_factory=lambda: Load(0.0, 0.0, 0.0))
    kept: list[Kept] = field(default_factory=list)

    def collect(self, arm: str, units: int, null_pairs: int, draw: Draw) -> None:
        """Bring the arm up to ``units`` blocks and ``null_pairs`` null pairs, in an order that is drawn.

        Raises:
            ProcessLost: the process died, hung or broke the protocol.
        """
        turn, second_base = Turn(arm, draw.phase, 1), Turn(BASE, draw.phase, 1, cycle="" if arm == BASE else arm)
        self.process.warm(first_base(draw.phase), turn)
        wanted = [True] * (units - len(self.blocks)) + [False] * (null_pairs - len(self.null))
        draw.rng.shuffle(wanted)
        began = Load.now()
        for is_unit in wanted:
            if is_unit:
                self.blocks.append(self.block(turn, draw))
            else:
                self.null.append(self._pair(second_base, draw, base_first=len(self.null) % 2 == 0))
        self.load = self.load.plus(Load.now().since(began))

    def block(self, turn: Turn, draw: Draw) -> Block:
        """Take two pairs in opposite orders, so that a bias of the second place cancels inside the block."""
        base_first = draw.coin()
        return self._pair(turn, draw, base_first=base_first), self._pair(turn, draw, base_first=not base_first)

    def timing(self) -> ProcessTiming:
        """Return it as evidence."""
        return ProcessTiming(
            process=self.index,
            blocks=tuple(self.blocks),
            null=tuple(self.null),
            output_mismatch=self.agreement,
            steal_s=self.load.steal_s,
            pressure=self.load.pressure,
            wall_s=self.load.wall_s,
        )

    def _pair(self, turn: Turn, draw: Draw, *, base_first: bool) -> TimedPair:
        state = self._next_state(draw)
        if base_first:
            base, other = self._sample(first_base(draw.phase), state, draw), self._sample(turn, state, draw)
        else:
            other, base = self._sample(turn, state, draw), self._sample(first_base(draw.phase), state, draw)
        self._compare(draw.phase)
        return TimedPair(base, other, base_first)

    def _sample(self, turn: Turn, state: int, draw: Draw) -> TimedSample:
        # Each region has values of its own: what the other arm of the pair returned is no answer here.
        content = draw.content()
        taken = self.process.sample(turn, state, draw.repeats, content)
        if self.expected and draw.rng.random() < draw.keep_share:
            index = draw.rng.randrange(draw.repeats)
            self.kept.append(Kept(state, content + index, self.process.keep(index)))
        return taken

    def _compare(self, phase: str) -> None:
        """Compare kept outputs with what the witness returns on the same values; between pairs, to disturb neither."""
        while self.expected and self.kept:
            one = self.kept.pop()
            want = self.expected(phase, one.state, one.content)
            try:
                self.agreement = min(self.agreement, agreement(want, take(one.file, at_most=want.size)))
            except EvidenceError as fault:
                raise self.process.lost("CRASH", fault.message) from fault

    def _next_state(self, draw: Draw) -> int:
        """Return a prepared input; every one is used once before any is used again."""
        if not self.unused:
            self.unused = draw.rng.sample(range(draw.states), draw.states)
        return self.unused.pop()
