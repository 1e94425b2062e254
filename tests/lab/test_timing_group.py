"""How looks, batches and lost processes are handled, with processes that are only pretended."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, TimingJob
from pytest_frt.contracts.timing import TimedSample, TimingEvidence
from pytest_frt.contracts.verdict import Crashed, Pass, Verdict
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_group import Ask, TimingGroup
from pytest_frt.lab.timing_process import ProcessLost, Turn
from pytest_frt.lab.witnesses import WitnessLost
from tests.lab.pretended import Fleet, Process, Silent, Witness

ARMS = ("a", "b")
Make = Callable[..., TimingGroup]


class Looks:
    """Decides at the look given, and keeps how many units each look saw per process."""

    def __init__(self, stop_at: int = 99) -> None:
        self.stop_at, self.seen = stop_at, list[list[int]]()

    def __call__(self, evidence: TimingEvidence) -> Verdict | None:
        self.seen.append([len(process.blocks) for process in evidence.processes])
        return Pass("net_win") if len(self.seen) == self.stop_at else None


def ask(arm: str = "a", looks: Looks | None = None) -> Ask:
    return Ask(arm, looks or Looks(), random.Random(3), Silent(), attempt=2)  # noqa: S311 (no secret)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(
        fleet: Fleet,
        *,
        resident: bool | None = True,
        plan: TimingPlan | None = None,
        arms: Sequence[str] = ARMS,
        regimes: dict[str, str] | None = None,
    ) -> TimingGroup:
        lab = TimingLab(
            tmp_path,
            environ={},
            lock=DeviceLock("cpu", tmp_path),
            plan=plan or TimingPlan(processes=4, looks=(1, 3), scouts=4),
            resident=resident,
        )
        lab.fleet = lambda _: fleet
        lab.witnesses = Witness()
        request = BuildRequest("tiny", 0, None, "cpu", "")
        phases = tuple(dict.fromkeys((regimes or {"a": "decode"}).values()))
        job = TimingJob(
            HostRef("toy", "", request, 1),
            {"base": (), **dict.fromkeys(arms, ())},
            "",
            {},
            phases,
            "eager",
            "eager",
            4,
            "",
        )
        return TimingGroup(lab, job, regimes)

    return build


def test_all_looks_are_taken_from_every_process(make: Make) -> None:
    looks = Looks()
    evidence = make(Fleet()).collect(ask(looks=looks))
    assert looks.seen == [[1] * 4, [3] * 4]
    assert [len(process.null) for process in evidence.processes] == [4] * 4
    assert (evidence.attempt, evidence.quick, evidence.repeats) == (2, False, 1)


def test_decision_stops_the_collection(make: Make) -> None:
    looks = Looks(stop_at=1)
    evidence = make(Fleet()).collect(ask(looks=looks))
    assert [len(process.blocks) for process in evidence.processes] == [1] * 4


def test_processes_stay_loaded_for_the_next_arm_and_fresh_pairs(make: Make) -> None:
    fleet = Fleet()
    group = make(fleet)
    first = group.collect(ask("a"))
    assert group.collect(ask("b")).processes[0].blocks[0][0].candidate.arm == "b"
    assert group.collect(ask("a")) != first
    assert sum(count for _, count in fleet.loads) == 4


def test_null_pair_goes_through_a_full_cycle_on_the_second_instance(make: Make) -> None:
    fleet = Fleet()
    make(fleet).collect(ask("a"))
    assert fleet.log.count("base1a") == 4 * 4
    assert "base1" not in fleet.log
    assert fleet.log.count("a1") == 4 * 3 * 2 + 3


def test_orders_are_drawn_and_balanced(make: Make) -> None:
    evidence = make(Fleet(), plan=TimingPlan(processes=8, looks=(10,))).collect(ask())
    blocks = [block for process in evidence.processes for block in process.blocks]
    assert all(first.base_first != second.base_first for first, second in blocks)
    assert 20 < sum(first.base_first for first, _ in blocks) < 60


def test_every_input_is_used_before_any_is_used_again(make: Make) -> None:
    evidence = make(Fleet(), plan=TimingPlan(processes=1, looks=(4,), null_pairs=0)).collect(ask())
    states = [pair.base.state for block in evidence.processes[0].blocks for pair in block]
    assert sorted(states[:4]) == sorted(states[4:]) == [0, 1, 2, 3]


def test_no_content_is_timed_twice(make: Make) -> None:
    group = make(Fleet(), plan=TimingPlan(processes=1, looks=(10,)))
    group.collect(ask())
    contents = group._loaded.processes[0].contents
    assert len(set(contents)) == len(contents) >= 48


@pytest.mark.parametrize(("processes", "looks"), [(8, (3, 6, 10)), (3, (4,)), (1, (1,))])
def test_every_witness_is_timed_alike(make: Make, processes: int, looks: tuple[int, ...]) -> None:
    group = make(Fleet(), plan=TimingPlan(processes=processes, looks=looks))
    group.collect(ask())
    assert set(group._lab.witnesses.blocks) == {2 * len(looks)}


def test_batches_give_all_units_of_all_arms(make: Make) -> None:
    fleet, looks = Fleet(private=1 << 60), Looks()
    group = make(fleet, resident=None)
    first, second = group.collect(ask("a", looks)), group.collect(ask("b", looks))
    assert looks.seen == [[3], [3, 3], [3, 3, 3], [3, 3, 3, 3]]
    for evidence in (first, second):
        assert [len(process.blocks) for process in evidence.processes] == [3] * 4
        assert [process.process for process in evidence.processes] == [0, 1, 2, 3]
    assert fleet.loads == [(ARMS, 2), (ARMS, 1), (ARMS, 1), (ARMS, 1)]


def test_batch_stops_for_the_arm_that_is_decided(make: Make) -> None:
    group = make(Fleet(), resident=False)
    assert len(group.collect(ask("a", Looks(stop_at=2))).processes) == 2
    assert len(group.collect(ask("b")).processes) == 4


EIGHT = TimingPlan(processes=8, looks=(3, 6, 10), scouts=4)


def test_loser_is_stopped_after_the_scouts_have_given_all_units(make: Make) -> None:
    fleet, looks = Fleet(candidate_s=1.1), Looks(stop_at=1)
    evidence = make(fleet, plan=EIGHT, arms="a").collect(ask(looks=looks))
    assert [len(process.blocks) for process in evidence.processes] == [10] * 4
    assert sum(count for _, count in fleet.loads) == 4
    assert len(evidence.witness_base_s) == 3


def test_winner_gives_no_more_units_in_scouts_than_elsewhere(make: Make) -> None:
    looks = Looks(stop_at=2)
    evidence = make(Fleet(), plan=EIGHT, arms="a").collect(ask(looks=looks))
    assert looks.seen == [[3] * 4, [3] * 8]
    assert [process.process for process in evidence.processes] == list(range(8))


def test_undecided_loser_goes_on_with_every_process(make: Make) -> None:
    looks = Looks(stop_at=2)
    make(Fleet(candidate_s=1.1), plan=EIGHT, arms="a").collect(ask(looks=looks))
    assert looks.seen == [[10] * 4, [10] * 4 + [3] * 4]


def test_loser_among_others_is_looked_at_like_them(make: Make) -> None:
    fleet, looks = Fleet(candidate_s=1.1), Looks(stop_at=1)
    make(fleet, plan=EIGHT).collect(ask(looks=looks))
    assert looks.seen == [[3] * 8]


THREE = TimingPlan(processes=3, looks=(4,), one_by_one=True, null_pairs=0, witnesses=0)


@pytest.mark.parametrize("arms", ["a", "ab"], ids=["alone", "among_others"])
@pytest.mark.parametrize("asked", [1, 2, 3])
def test_processes_are_asked_about_one_by_one(make: Make, arms: str, asked: int) -> None:
    fleet, looks = Fleet(), Looks(stop_at=asked)
    make(fleet, plan=THREE, arms=arms).collect(ask(looks=looks))
    assert looks.seen == [[4] * (done + 1) for done in range(asked)]
    assert sum(count for _, count in fleet.loads) == max(asked, THREE.loads)


@pytest.mark.parametrize("resident", [True, False], ids=["by_looks", "by_batches"])
def test_arms_of_a_process_are_timed_each_in_its_own_regime(make: Make, resident: bool) -> None:  # noqa: FBT001
    fleet = Fleet()
    group = make(fleet, resident=resident, regimes={"a": "decode", "b": "verify"})
    assert all(isinstance(group.collect(ask(arm)), TimingEvidence) for arm in ARMS)
    assert fleet.regimes == {"a": {"decode"}, "b": {"verify"}, "base": {"decode", "verify"}}


def test_asking_again_in_batches_takes_fresh_pairs(make: Make) -> None:
    fleet = Fleet()
    group = make(fleet, resident=False)
    group.collect(ask("a"))
    before = len(fleet.log)
    group.collect(ask("a"))
    assert len(fleet.log) > before


@pytest.mark.parametrize("resident", [True, False], ids=["by_looks", "by_batches"])
def test_lost_process_is_the_crash_of_the_arm_it_timed(make: Make, resident: bool) -> None:  # noqa: FBT001
    fleet = Fleet(fatal="a")
    group = make(fleet, resident=resident)
    assert isinstance(group.collect(ask("b")), TimingEvidence)
    assert group.collect(ask("a")) == Crashed("net_win", "TIMEOUT", "a hung")
    assert isinstance(group.collect(ask("b")), TimingEvidence)
    assert fleet.loads[-1][0] == ("b",)


def test_arm_that_cannot_load_falls_alone(make: Make) -> None:
    fleet = Fleet(broken="a")
    group = make(fleet)
    assert isinstance(group.collect(ask("b")), TimingEvidence)
    assert group.collect(ask("a")) == Crashed("net_win", "CRASH", "a cannot be imported")
    assert [arms for arms, _ in fleet.loads] == [ARMS, ("b",), ("b",), ("a",)]


@pytest.mark.parametrize("resident", [True, False], ids=["by_looks", "by_batches"])
def test_helper_process_beside_the_timing_is_a_crash(make: Make, resident: bool) -> None:  # noqa: FBT001
    fleet = Fleet()
    fleet.left = [7]
    verdict = make(fleet, resident=resident).collect(ask())
    assert isinstance(verdict, Crashed)
    assert verdict.detail.startswith("1 processes run beside")


def test_dead_arm_is_not_tried_again(make: Make) -> None:
    fleet = Fleet(fatal="a")
    group = make(fleet)
    group.collect(ask("a"))
    loads = len(fleet.loads)
    assert isinstance(group.collect(ask("a")), Crashed)
    assert len(fleet.loads) == loads


def test_lost_witness_blames_no_arm(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    group = make(Fleet())

    def lost(*_: object) -> None:
        raise WitnessLost(ProcessLost("CRASH", "out of memory"))

    with monkeypatch.context() as patch:
        patch.setattr(group._lab.witnesses, "prepare", lost)
        assert group.collect(ask()) == Crashed("net_win", "CRASH", "witness: out of memory")
    assert isinstance(group.collect(ask()), TimingEvidence)


def test_short_work_is_repeated_until_a_region_is_long_enough(make: Make) -> None:
    group = make(Fleet())

    class Short(Process):
        def sample(self, turn: Turn, state: int, repeats: int, content: int) -> TimedSample:
            return replace(super().sample(turn, state, repeats, content), worker_s=repeats * 1e-4)

    assert group._lab.repeats(Short([]), Turn("a", "decode", 1)) in range(200, 250)
