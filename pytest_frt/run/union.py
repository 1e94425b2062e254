"""Unions: attach disjoint records that passed alone together, judge again, drop the worst until the rest stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.contracts.verdict import Inconclusive, NotRun, Pass, Refusal, Verdict
from pytest_frt.gates import union
from pytest_frt.measure.timing import summarise
from pytest_frt.rules.rows import rounded
from pytest_frt.run import evidence, proof
from pytest_frt.run.clocking import Clock, Course, Entrant
from pytest_frt.run.results import Member, UnionResult
from pytest_frt.run.settle import Question, Settled, Settling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pytest_frt.contracts.job import UnitRef
    from pytest_frt.contracts.structure import Limit
    from pytest_frt.contracts.timing import TimingEvidence
    from pytest_frt.contracts.verdict import Measured
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan
    from pytest_frt.run.stages import Stages, Witnessed

ARM = "union"


@dataclass(frozen=True, slots=True)
class Alone:
    """A record as it was proven alone."""

    record: RecordPlan
    settled: Settled
    timing: TimingEvidence
    speed: float

    @property
    def member(self) -> Member:
        """The record as a member of a plan."""
        return Member(self.record.id, self.settled.survivors, self.speed)


def pooled(timing: TimingEvidence) -> float:
    """Return the pooled median of a record's unit ratios."""
    ratios = sorted(ratio for process in rounded(summarise(timing).worker) for ratio in process)
    middle = len(ratios) // 2
    return ratios[middle] if len(ratios) % 2 else (ratios[middle - 1] + ratios[middle]) / 2


def _overlap(one: str, other: str) -> bool:
    """Report whether two module paths are one place, or one lies inside the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def disjoint(alone: Sequence[Alone], witnessed: Witnessed) -> tuple[list[Alone], dict[str, str]]:
    """Choose records whose places do not overlap, fastest first, and say which were left out for whom."""
    places = {facts.id: facts.seat.places for facts in witnessed.evidence.seats}
    taken: dict[str, str] = {}
    chosen: list[Alone] = []
    dropped: dict[str, str] = {}
    for one in sorted(alone, key=lambda each: (-each.speed, each.record.id)):
        mine = [place for seat in one.settled.survivors for place in places[seat]]
        if clash := next((other for at, other in taken.items() if any(_overlap(at, place) for place in mine)), None):
            dropped[one.record.id] = f"its places are taken by the faster {clash}"
            continue
        taken |= dict.fromkeys(mine, one.record.id)
        chosen.append(one)
    return chosen, dropped


def contested(timed: Iterable[RecordPlan]) -> frozenset[str]:
    """Return the ids of records that other records of their structure were timed against: the best of them is a choice.

    Args:
        timed: Records of one union that were timed, whether they passed or not.
    """
    by_structure: dict[str, list[str]] = {}
    for record in timed:
        by_structure.setdefault(record.key.cell.structure, []).append(record.id)
    return frozenset(one for rivals in by_structure.values() if len(rivals) > 1 for one in rivals)


class Unions:
    """Judges unions with the bench's stages and clock."""

    def __init__(
        self,
        config: RunConfig,
        proofs: proof.Bench,
        stages: Stages,
        clock: Clock,
        limits: Callable[[str], tuple[Limit, ...]],
    ) -> None:
        self._config, self._proofs, self._stages, self._clock, self._limits = config, proofs, stages, clock, limits

    def judge(
        self,
        name: str,
        passed: Sequence[tuple[RecordPlan, Settled, TimingEvidence | None]],
        witnessed: Witnessed,
        contested: Collection[str] = (),
    ) -> UnionResult:
        """Return the certified set, or why there is none.

        A record stands alone on the pairs that it was judged by only when nothing was chosen among several: a best of
        several owes some of its lead to luck, so it is timed again.

        Args:
            name: The union's name.
            passed: What passed alone.
            witnessed: The host's witness.
            contested: Ids of records that others of their structure were timed against.
        """
        alone = [Alone(record, settled, timing, pooled(timing)) for record, settled, timing in passed if timing]
        chosen, dropped = disjoint(alone, witnessed)
        verdict: Verdict = NotRun(union.GATE, "no record of it was certified")
        while chosen:
            chance = bool(dropped) or any(one.record.id in contested for one in chosen)
            verdict, settled, timing = self._try(name, chosen, witnessed, anew=chance or len(chosen) > 1)
            members = tuple(one.member for one in chosen)
            if isinstance(verdict, Pass) and settled and timing:
                return self._proven(name, chosen, dropped, verdict, settled, timing, witnessed)
            if len(chosen) == 1 or not isinstance(verdict, Refusal | Inconclusive):
                return UnionResult(name, verdict, members, dropped, ratios=_ratios(chosen, timing))
            refused = [refusal for some in settled.refused.values() for refusal in some] if settled else []
            standings = [union.Standing(one.record.id, one.settled.survivors, one.speed) for one in chosen]
            worst = union.worst_unit(standings, refused)
            dropped[worst] = f"the union with it does not stand: {verdict.detail}"
            chosen = [one for one in chosen if one.record.id != worst]
        return UnionResult(name, verdict, (), dropped)

    def _try(
        self, name: str, chosen: Sequence[Alone], witnessed: Witnessed, *, anew: bool
    ) -> tuple[Verdict, Settled | None, TimingEvidence | None]:
        only, record = chosen[0], chosen[0].record
        if not anew:
            return Pass(union.GATE, band=self._band(only)), only.settled, only.timing
        units = tuple(unit for one in chosen for unit in one.settled.units)
        limits = {unit.structure: self._limits(unit.structure) for unit in units}
        question = Question(record.host, units, record.key.phase, record.key.form, limits)
        settled = only.settled
        if len(chosen) > 1:
            settled = Settling(self._stages, question, witnessed, lifecycle=False).run()
        if settled.parity is None or settled.ledger is None or settled.units != units:
            failed = next((v for v in settled.verdicts.values() if not isinstance(v, Pass)), None)
            moved = Refusal(union.GATE, "seats", "seats that held alone do not hold together")
            return failed or moved, settled, None
        course = self._course(record, witnessed)
        win, timing = self._clock.judge(course, [self._entrant(name, record, units, settled)])[name]
        if timing is not None:
            evidence.keep(Path(self._config.out), name, timing, win, output=course.output)
        return union.judge(settled.parity, settled.ledger, win), settled, timing

    @staticmethod
    def _band(only: Alone) -> str:
        return getattr(only.settled.verdicts["parity"], "band", "pass")

    @staticmethod
    def _course(record: RecordPlan, witnessed: Witnessed) -> Course:
        phases = (record.key.phase,)
        key, output = record.key, witnessed.evidence.host_output
        return Course(record.host, witnessed.seats_file, phases, key.form, output, key.cache)

    @staticmethod
    def _entrant(name: str, record: RecordPlan, units: tuple[UnitRef, ...], settled: Settled) -> Entrant:
        return Entrant(name, ARM, record.key.phase, units, settled.tried.scales if settled.tried else "")

    def _proven(
        self,
        name: str,
        chosen: Sequence[Alone],
        dropped: dict[str, str],
        verdict: Pass,
        settled: Settled,
        timing: TimingEvidence,
        witnessed: Witnessed,
    ) -> UnionResult:
        record = chosen[0].record
        keys = sorted(one.record.id for one in chosen)
        plan = proof.plan_of(
            self._proofs, name, keys, dropped, settled, witnessed, timing, device=record.host.request.device
        )
        comparison: tuple[Measured, ...] = ()
        if self._config.comparison and record.key.form == "eager":
            course = self._course(record, witnessed)
            comparison = self._clock.compare(course, self._entrant(name, record, settled.units, settled))
        members = tuple(one.member for one in chosen)
        return UnionResult(name, verdict, members, dropped, plan, comparison, ratios=_ratios(chosen, timing))


def _ratios(chosen: Sequence[Alone], timing: TimingEvidence | None) -> tuple[tuple[float, ...], ...]:
    """Return what was timed for the union; a member that stands as it was timed alone has shown its own ratios."""
    return proof.ratios(timing) if timing and timing is not chosen[0].timing else ()
