"""A pretended host with sound evidence, and stages and a clock that follow a script instead of starting workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.contracts.evidence import (
    CallFacts,
    CandidateEvidence,
    Conduct,
    HostMetrics,
    LedgerEntry,
    NullControl,
    ParityEvidence,
    SeamMetrics,
    WitnessEvidence,
)
from pytest_frt.contracts.host import BuildRequest, HostFacts
from pytest_frt.contracts.job import HostRef, UnitRef
from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.contracts.verdict import Crashed, Refusal
from pytest_frt.run.custody import Originals
from pytest_frt.run.plan import RecordPlan
from pytest_frt.run.settle import Question
from pytest_frt.run.stages import Tried, Witnessed

CALLS = 5
LIMITS = SeamLimits(
    because="toy", slope=0.002, reference_factor=2.0, floor=1e-3, rel_l2=0.05, row_rel_l2=0.2, max_abs=0.5, outliers=0.0
)
HOST = HostRef("toy", "/nowhere", BuildRequest("tiny", 0, None, "cpu", "/nowhere"), 1)
FACTS = HostFacts("toy", "toy.Toy", {"torch": "2"}, "c" * 64, {"Toy": "d" * 64}, "random", "synthetic(0, toy)")
HELD_OUT = HostMetrics(0, finite=True, cosine=1.0, top1=1.0, last_cosine=1.0, kl=0.0, max_abs=1.0)


def seat(path: str, structure: str = "ffn") -> SeatFacts:
    return SeatFacts(structure, ModuleSeat(path), {}, {"D": 8}, {}, {}, "float32", {})


def witnessed(*seats: SeatFacts) -> Witnessed:
    calls = tuple(CallFacts(one.id, "decode", CALLS, {"1": CALLS}, "float32") for one in seats)
    evidence = WitnessEvidence(
        host=FACTS,
        host_output="values",
        null=NullControl(0, (), (), (), ()),
        seats=seats,
        not_replaced=(),
        calls=calls,
        weights={one.id: f"weights of {one.id}" for one in seats},
        heldout_digest="",
        calibration_digest="",
        parameters=1,
        zeroed={f"decode/{one.structure}": (HELD_OUT,) for one in seats},
        seconds=0.0,
    )
    return Witnessed(evidence, Path("/nowhere"), {}, Originals.of(()))


def unit(structure: str = "ffn", impl: str = "fast", seats: tuple[str, ...] = ()) -> UnitRef:
    return UnitRef(structure, "", impl, __file__, "exact", "", "a/b", "", "e" * 64, (1, 8), seats)


def metrics(seat_id: str, case: str, slope: float = 1.0) -> SeamMetrics:
    return SeamMetrics(
        seat=seat_id,
        case=case,
        output=0,
        rows=8,
        finite=True,
        candidate_error=0.0,
        scheme_error=0.0,
        slope=slope,
        rel_l2=abs(slope - 1),
        row_rel_l2=abs(slope - 1),
        max_abs=0.0,
        outliers=0.0,
        cosine=1.0,
        elements=4096,
    )


@dataclass
class Answer:
    """What one attempt comes to; by default every seat asked for is bound and right.

    Attributes:
        gain: Seats whose outputs are 1 % too large.
        unbound: Seats that ``bind`` refuses.
        fallbacks: Seats that fell back once.
        lost: In place of evidence.
        died: The worker died after its seams.
        composed: The host was run with the seats.
        tampered: Files the candidate changed.
        host: Metrics of the held-out samples.
    """

    gain: tuple[str, ...] = ()
    unbound: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    lost: Crashed | Refusal | None = None
    died: Crashed | None = None
    composed: bool = True
    tampered: tuple[str, ...] = ()
    host: tuple[HostMetrics, ...] = (HELD_OUT,)

    def tried(self, units: Sequence[UnitRef], found: Witnessed) -> Tried:
        asked = [one for each in units for one in each.seats]
        bound = tuple(one for one in asked if one not in self.unbound)
        seam = tuple(
            metrics(one, case, 1.01 if one in self.gain else 1.0) for one in bound for case in ("real", "edge")
        )
        evidence = CandidateEvidence(
            bound=bound,
            refused=tuple(Refusal("bind", "envelope", "too wide", at=one) for one in asked if one in self.unbound),
            kernel={},
            closure=(),
            calibration=None,
            ledger=tuple(_entry(one, fallback=one in self.fallbacks) for one in bound),
            mutated=(),
            poison_differing=(),
            aliased=(),
            shapes_wrong=(),
            lifecycle=(),
            seconds=0.0,
            weights={one: found.evidence.weights[one] for one in bound},
            composed=self.composed,
            conduct=tuple(
                Conduct(one, 3, 0.0, carried=False, layouts={}, raised={}, mates=0.0, mates_rows=(1, 1))
                for one in bound
            ),
        )
        together = tuple(PooledMetrics(one, 0, 64, 8, (), ()) for one in bound)
        parity = ParityEvidence(seam, self.host, (HELD_OUT,), pooled=together)
        return Tried(evidence, parity, {each.id: LIMITS for each in units}, Path("/nowhere"), self.died, self.tampered)


def _entry(seat_id: str, *, fallback: bool) -> LedgerEntry:
    reasons = {"dtype": 1} if fallback else {}
    return LedgerEntry(seat_id, CALLS - fallback, 0, int(fallback), reasons, restored=False)


@dataclass
class Stages:
    """Answers attempts in order, and keeps what was asked.

    Attributes:
        answers: What the attempts come to; the last one repeats.
        asked: The seats of every attempt.
    """

    answers: list[Answer]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def attempt(
        self,
        question: Question,  # noqa: ARG002 (the real one's signature)
        units: Sequence[UnitRef],
        witnessed: Witnessed,
        *,
        lifecycle: bool,  # noqa: ARG002
    ) -> Tried | Crashed | Refusal:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(tuple(one for each in units for one in each.seats))
        return answer.lost or answer.tried(units, witnessed)


def timing(speed: float) -> TimingEvidence:
    """Return timing of eight processes at a speed."""

    def arm(name: str, seconds: float) -> TimedSample:
        return TimedSample(name, 0, worker_s=seconds, judge_s=seconds, canary_s=0.002)

    first = TimedPair(arm("base", 0.03), arm("fast", 0.03 / speed), base_first=True)
    block = (first, replace(first, base_first=False))
    processes = tuple(ProcessTiming(index, (block,) * 3, block, 1.0, 0.0, 0.0, 1.0) for index in range(8))
    return TimingEvidence(processes, (0.03,) * 3, 1, quick=False)


def record(impl: str, structure: str = "ffn") -> RecordPlan:
    """Return the plan of one record."""
    key = RecordKey(Cell(structure, impl, "toy", "exact", "cpu"), "eager", "decode", "tiny")
    spec: Any = None
    return RecordPlan(key, HOST, spec, unit(structure, impl))


@pytest.fixture
def toy() -> Any:
    """Return the builders of this module as attributes."""
    return Builders()


class Builders:
    """What tests of this folder build with."""

    seat, unit, witnessed = staticmethod(seat), staticmethod(unit), staticmethod(witnessed)
    timing, record = staticmethod(timing), staticmethod(record)
    Answer, Stages = Answer, Stages
    host = HOST

    @staticmethod
    def question(*units: UnitRef) -> Question:
        return Question(HOST, units, "decode", "eager", {})


Builder = Callable[..., Any]
