"""A union takes the fastest of what overlaps, drops its worst record until it stands, and says what it left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.contracts.verdict import Crashed, Inconclusive, Measured, NotRun, Pass, Refusal, Verdict
from pytest_frt.registry import Registry
from pytest_frt.run.clocking import Course, Entrant
from pytest_frt.run.proof import Bench
from pytest_frt.run.results import UnionResult
from pytest_frt.run.settle import Settling
from pytest_frt.run.union import Unions, contested

WIN = Pass("net_win", (Measured("pooled_median", 1.3, ">", 1.02, 24),))
LOSS = Refusal("net_win", "no_win", "0 of 24 units")


@dataclass
class Clock:
    """Answers timings in order, and keeps what was timed."""

    verdicts: list[Verdict]
    evidence: TimingEvidence
    entrants: list[Entrant] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)

    def judge(self, _course: Course, entrants: Sequence[Entrant]) -> dict[str, tuple[Verdict, TimingEvidence]]:
        verdict = self.verdicts[min(len(self.entrants), len(self.verdicts) - 1)]
        self.entrants += entrants
        return {one.name: (verdict, self.evidence) for one in entrants}

    def compare(self, _course: Course, entrant: Entrant) -> tuple[Measured, ...]:
        self.compared.append(entrant.name)
        return (Measured("compiled_host.median", 0.9, ">=", 1.0, 10),)


@dataclass
class Settings:
    """The settings that unions read."""

    comparison: bool
    out: str


@dataclass
class Trial:
    """One union to judge.

    Attributes:
        toy: Builders.
        seats: Impl name to the module paths that it sits at.
        speeds: Impl name to its own speed.
    """

    toy: Any
    seats: dict[str, tuple[str, ...]]
    speeds: dict[str, float]
    out: Path

    def judge(
        self,
        answers: Sequence[Any] = (),
        verdicts: Sequence[Verdict] = (WIN,),
        *,
        comparison: bool = False,
        rivals: Sequence[str] = (),
    ) -> UnionResult:
        toy = self.toy
        structures = {impl: f"s_{impl}" for impl in self.seats}
        found = toy.witnessed(
            *(toy.seat(path, structures[impl]) for impl, paths in self.seats.items() for path in paths)
        )
        self.stages, self.clock = toy.Stages(list(answers) or [toy.Answer()]), Clock(list(verdicts), toy.timing(1.3))
        passed = []
        for impl in self.seats:
            record = toy.record(impl, structures[impl])
            alone = Settling(toy.Stages([toy.Answer()]), toy.question(record.unit), found, lifecycle=True).run()
            passed.append((record, alone, toy.timing(self.speeds[impl])))
        config, stages, clock = Settings(comparison, str(self.out)), self.stages, self.clock
        unions: Any = Unions(config, Bench(Registry.load(), 1, 0), stages, clock, lambda _: ())  # type: ignore[arg-type]
        against = [record for record, _, _ in passed for impl in rivals if record.key.cell.impl == impl]
        others = [toy.record("null_impl", record.key.cell.structure) for record in against]
        result: UnionResult = unions.judge("toy-cpu", passed, found, contested([*against, *others]))
        return result


@pytest.fixture
def two(toy: Any, tmp_path: Path) -> Trial:
    return Trial(toy, {"fast": ("a", "b"), "slow": ("c",)}, {"fast": 1.4, "slow": 1.1}, tmp_path)


def impls(names: Sequence[str]) -> list[str]:
    return [name.split("-")[1] for name in names]


def test_what_holds_together_is_one_plan(two: Trial) -> None:
    result = two.judge(comparison=True)
    assert isinstance(result.verdict, Pass)
    assert result.proven is not None
    assert impls(result.proven.keys) == ["fast", "slow"]
    assert result.dropped == {}
    assert two.stages.asked == [("a", "b", "c")]
    assert [unit.impl for unit in two.clock.entrants[0].units] == ["fast", "slow"]
    assert [number.metric for number in result.comparison] == ["compiled_host.median"]


@pytest.mark.parametrize("path", ["a", "a.inner", "b.gate.up"], ids=["same", "inside", "deep_inside"])
def test_of_what_overlaps_the_faster_is_taken(toy: Any, path: str, tmp_path: Path) -> None:
    trial = Trial(toy, {"slow": (path,), "fast": ("a", "b")}, {"fast": 1.4, "slow": 1.1}, tmp_path)
    result = trial.judge()
    assert impls([member.record for member in result.members]) == ["fast"]
    ((name, reason),) = result.dropped.items()
    assert impls([name]) == ["slow"]
    assert "taken by the faster s_fast-fast" in reason


def test_neighbours_with_one_prefix_do_not_overlap(toy: Any, tmp_path: Path) -> None:
    trial = Trial(toy, {"fast": ("layers.1",), "slow": ("layers.10",)}, {"fast": 1.4, "slow": 1.1}, tmp_path)
    assert trial.judge().dropped == {}


def test_single_record_is_a_plan_without_another_run(toy: Any, tmp_path: Path) -> None:
    trial = Trial(toy, {"only": ("a",)}, {"only": 1.2}, tmp_path)
    result = trial.judge()
    assert result.proven is not None
    assert (trial.stages.asked, trial.clock.entrants) == ([], [])


def test_best_of_several_impls_is_confirmed_on_pairs_that_did_not_choose_it(toy: Any, tmp_path: Path) -> None:
    trial = Trial(toy, {"only": ("a",)}, {"only": 1.2}, tmp_path)
    result = trial.judge(rivals=("only",))
    assert isinstance(result.verdict, Pass)
    assert trial.stages.asked == []
    assert [entrant.name for entrant in trial.clock.entrants] == ["toy-cpu"]
    assert result.proven is not None
    samples = next(row.samples for row in result.proven.gates if row.name == "latency.net_win")
    assert samples[0] == "0:1.3"  # the clock's pairs, not those at 1.2 that chose it


@pytest.mark.parametrize("verdict", [LOSS, Inconclusive("net_win", "40 of 80")], ids=["loss", "inconclusive"])
def test_best_of_several_that_fresh_pairs_deny_is_no_plan(toy: Any, tmp_path: Path, verdict: Verdict) -> None:
    result = Trial(toy, {"only": ("a",)}, {"only": 1.2}, tmp_path).judge(verdicts=(verdict,), rivals=("only",))
    assert isinstance(result.verdict, type(verdict))
    assert result.proven is None


def test_faster_of_two_that_overlap_is_timed_again(toy: Any, tmp_path: Path) -> None:
    trial = Trial(toy, {"slow": ("a",), "fast": ("a",)}, {"fast": 1.4, "slow": 1.1}, tmp_path)
    assert trial.judge(verdicts=(LOSS,)).proven is None
    assert [unit.impl for unit in trial.clock.entrants[0].units] == ["fast"]


def test_records_of_one_structure_contest_each_other_and_no_one_else(toy: Any) -> None:
    records = [toy.record("fast"), toy.record("slow"), toy.record("fast", "norm")]
    assert contested(records) == {records[0].id, records[1].id}


def test_union_that_does_not_win_is_tried_without_its_slowest(two: Trial) -> None:
    result = two.judge(verdicts=(LOSS, WIN))
    assert isinstance(result.verdict, Pass)
    assert impls([member.record for member in result.members]) == ["fast"]
    ((name, reason),) = result.dropped.items()
    assert impls([name]) == ["slow"]
    assert "does not stand: 0 of 24 units" in reason
    assert result.proven is not None
    assert result.proven.dropped == result.dropped


def test_union_that_breaks_seats_is_tried_without_their_record(toy: Any, tmp_path: Path) -> None:
    trial = Trial(toy, {"x": ("a",), "y": ("b", "c"), "z": ("d",)}, {"x": 1.1, "y": 1.4, "z": 1.2}, tmp_path)
    broken = toy.Answer(gain=("c",))
    result = trial.judge([broken, toy.Answer(), toy.Answer()])
    assert impls(list(result.dropped)) == ["y"]
    assert sorted(impls([member.record for member in result.members])) == ["x", "z"]
    assert trial.stages.asked[-1] == ("d", "a")


def test_crash_of_the_union_ends_it(two: Trial) -> None:
    result = two.judge([two.toy.Answer(lost=Crashed("parity", "CRASH", "out of memory"))])
    assert isinstance(result.verdict, Crashed)
    assert (result.proven, two.clock.entrants) == (None, [])


def test_nothing_timed_is_no_union(two: Trial) -> None:
    assert isinstance(Trial(two.toy, {}, {}, two.out).judge().verdict, NotRun)
