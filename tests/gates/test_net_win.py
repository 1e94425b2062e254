"""Net win: planted faults of the run are Invalid before any verdict, and a pass must hold by the judge's clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.contracts.verdict import Inconclusive, Invalid, Pass, Refusal, Verdict
from pytest_frt.gates import net_win
from pytest_frt.measure.timing import units
from pytest_frt.rules import validity
from pytest_frt.spec import codec

BASE_S = 0.030


def block(speed: float, base: float = BASE_S) -> tuple[TimedPair, TimedPair]:
    def arm(name: str, seconds: float) -> TimedSample:
        return TimedSample(name, 0, worker_s=seconds, judge_s=seconds + 2e-4, canary_s=0.002)

    pair = TimedPair(arm("base", base), arm("fast", base / speed), base_first=True)
    return pair, replace(pair, base_first=False)


def process(index: int, speed: float, *, units: int = 10) -> ProcessTiming:
    return ProcessTiming(
        process=index,
        blocks=(block(speed),) * units,
        null=block(1.0) * 2,
        output_mismatch=1.0,
        steal_s=0.0,
        pressure=0.1,
        wall_s=5.0,
    )


def evidence(speed: float, *, processes: int = 8, units: int = 10, quick: bool = False) -> TimingEvidence:
    timed = tuple(process(index, speed, units=units) for index in range(processes))
    return TimingEvidence(timed, (BASE_S,) * 3, 1, quick=quick)


@pytest.mark.parametrize(("speed", "expected"), [(1.3, Pass), (1.015, Refusal), (0.9, Refusal)])
def test_verdict(speed: float, expected: type[Verdict]) -> None:
    assert isinstance(net_win.judge(evidence(speed), output="values"), expected)


@pytest.mark.parametrize("units", [3, 6])
def test_an_early_look_needs_no_more(units: int) -> None:
    assert isinstance(net_win.judge(evidence(1.3, units=units), output="values"), Pass)


def test_three_processes_are_enough_to_see_no_win() -> None:
    assert isinstance(net_win.judge(evidence(0.9, processes=3), output="values"), Refusal)


Fault = Callable[[ProcessTiming], ProcessTiming]


def samples(change: Callable[[TimedSample], TimedSample], arms: tuple[str, ...]) -> Fault:
    """Spoil every sample of some arms."""

    def spoil(pair: TimedPair) -> TimedPair:
        base = change(pair.base) if "base" in arms else pair.base
        fast = change(pair.candidate) if "fast" in arms else pair.candidate
        return replace(pair, base=base, candidate=fast)

    return lambda timed: replace(timed, blocks=tuple((spoil(first), spoil(second)) for first, second in timed.blocks))


def fixed_order(timed: ProcessTiming) -> ProcessTiming:
    return replace(timed, blocks=tuple((first, first) for first, _ in timed.blocks))


def null_arm_drifts(timed: ProcessTiming) -> ProcessTiming:
    return replace(timed, null=block(1.05) * 2)


FAULTS: dict[str, tuple[Fault, str]] = {
    "candidate_always_second": (fixed_order, "order"),
    "stored_outputs_replayed": (lambda timed: replace(timed, output_mismatch=0.7), "outputs"),
    "nan_outputs": (lambda timed: replace(timed, output_mismatch=math.nan), "outputs"),
    "empty_work": (samples(lambda s: replace(s, worker_s=8e-9), ("fast",)), "empty_work"),
    "timer_stopped": (samples(lambda s: replace(s, worker_s=0.0), ("fast",)), "empty_work"),
    "timer_slowed": (samples(lambda s: replace(s, worker_s=s.worker_s / 2), ("fast",)), "clock"),
    "timer_not_synchronised": (samples(lambda s: replace(s, worker_s=5e-5), ("fast",)), "clock"),
    "hypervisor_steals": (lambda timed: replace(timed, steal_s=2.0), "steal"),
    "neighbours": (lambda timed: replace(timed, pressure=0.95), "pressure"),
    "canary_slower_beside_the_base": (samples(lambda s: replace(s, canary_s=0.0021), ("base",)), "canary"),
    "canary_not_timed": (samples(lambda s: replace(s, canary_s=0.0), ("fast",)), "canary"),
    "second_base_faster": (null_arm_drifts, "null_arm"),
    "no_null_arm": (lambda timed: replace(timed, null=()), "null_arm"),
    "base_arm_sleeps": (
        samples(lambda s: replace(s, worker_s=s.worker_s * 1.2, judge_s=s.judge_s * 1.2), ("base",)),
        "witness",
    ),
}


def spoiled(fault: Fault, speed: float = 1.3) -> TimingEvidence:
    sound = evidence(speed)
    return replace(sound, processes=tuple(fault(timed) for timed in sound.processes))


@pytest.mark.parametrize(("fault", "guard"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_voids_the_run(fault: Fault, guard: str) -> None:
    verdict = net_win.judge(spoiled(fault), output="values")
    assert isinstance(verdict, Invalid), verdict
    assert verdict.guard == guard


def uneven(speeds: tuple[float, ...]) -> TimingEvidence:
    """Every process gives one unit at each speed."""
    sound = evidence(1.0)
    blocks = tuple(block(speed) for speed in speeds)
    return replace(sound, processes=tuple(replace(timed, blocks=blocks) for timed in sound.processes))


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        pytest.param((1.3,) * 3, Pass, id="first_look_passes"),
        pytest.param((0.9,) * 3, Refusal, id="first_look_loses"),
        pytest.param((1.3, 1.3, 1.01), type(None), id="first_look_cannot_tell"),
        pytest.param((1.3, 1.3, 1.01) * 3 + (1.01,), Inconclusive, id="last_look_must_tell"),
    ],
)
def test_collection_in_progress(speeds: tuple[float, ...], expected: type[Verdict]) -> None:
    assert isinstance(net_win.decide(uneven(speeds), output="values"), expected)


def delayed_once(timed: ProcessTiming) -> ProcessTiming:
    """Let the judge see the candidate of the first block 1.5 ms later, within what its clock may differ by."""
    late = samples(lambda s: replace(s, judge_s=s.judge_s + 1.5e-3), ("fast",))(timed)
    return replace(timed, blocks=(late.blocks[0], *timed.blocks[1:]))


def test_units_are_taken_until_the_judges_clock_tells_too() -> None:
    first = uneven((1.04,) * 3)
    assert isinstance(net_win.decide(first, output="values"), Pass)
    delayed = replace(first, processes=tuple(map(delayed_once, first.processes)))
    assert net_win.decide(delayed, output="values") is None
    second = replace(
        delayed, processes=tuple(replace(t, blocks=t.blocks + t.blocks[1:] * 2) for t in delayed.processes)
    )
    assert isinstance(net_win.decide(second, output="values"), Pass)


def test_work_that_memory_cannot_have_fed_voids_the_run() -> None:
    sound = replace(evidence(1.3), bytes_read=10**8, peak_bytes_s=2e10)
    assert isinstance(net_win.judge(sound, output="values"), Pass)
    verdict = net_win.judge(replace(sound, bytes_read=10**9), output="values")
    assert isinstance(verdict, Invalid)
    assert verdict.guard == "peak_bandwidth"


@pytest.mark.parametrize(("repeats", "guard"), [(1000, ""), (2000, "empty_work")], ids=["work", "launches_only"])
def test_floor_holds_per_execution(repeats: int, guard: str) -> None:
    verdict = net_win.judge(replace(evidence(1.3), repeats=repeats), output="values")
    assert (verdict.guard if isinstance(verdict, Invalid) else "") == guard


def test_a_family_spends_less_on_each() -> None:
    nearly = uneven((1.3,) * 3)
    processes = tuple(replace(t, blocks=(*t.blocks[:2], block(1.0))) if t.process < 4 else t for t in nearly.processes)
    alone = replace(nearly, processes=processes)
    assert isinstance(net_win.judge(alone, output="values"), Pass)
    assert net_win.decide(replace(alone, alpha=0.0005), output="values") is None
    assert isinstance(net_win.judge(replace(alone, alpha=0.0005), output="values"), Invalid)


@pytest.mark.parametrize("alpha", [None, 0.0005], ids=["alone", "family"])
@pytest.mark.parametrize("speed", [1.3, 1.015, 0.9])
def test_recorded_pairs_give_the_same_verdict_byte_for_byte(speed: float, alpha: float | None) -> None:
    recorded = replace(evidence(speed), alpha=alpha)
    again = codec.loads(TimingEvidence, codec.dumps(recorded))
    one, other = (net_win.judge(each, output="values") for each in (recorded, again))
    assert codec.dumps(one) == codec.dumps(other)


def test_mutant_record_with_half_its_seconds_changed_gives_other_bytes() -> None:
    told, second = codec.dumps(evidence(1.3)), f'"worker_s": {BASE_S}'
    changed = told.replace(second, f'"worker_s": {BASE_S * 1.01}', told.count(second) // 2)
    verdicts = [net_win.judge(codec.loads(TimingEvidence, one), output="values") for one in (told, changed)]
    assert codec.dumps(verdicts[0]) != codec.dumps(verdicts[1])


def test_peak_guard_is_one_of_the_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "within_peak", lambda *_: None)
    verdict = net_win.judge(replace(evidence(1.3), bytes_read=10**9, peak_bytes_s=2e10), output="values")
    assert isinstance(verdict, Pass)


MUTED = {"canary": "control_ratio", "clock": "clocks_agree", "witness": "base_is_honest", "order": "both_orders"}


@pytest.mark.parametrize(
    "fault",
    [
        "canary_slower_beside_the_base",
        "timer_slowed",
        "timer_not_synchronised",
        "base_arm_sleeps",
        "candidate_always_second",
    ],
)
def test_mutant_without_its_guard_lets_the_fault_through(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    spoil, guard = FAULTS[fault]
    monkeypatch.setattr(validity, MUTED[guard], lambda *_: None)
    assert not isinstance(net_win.judge(spoiled(spoil), output="values"), Invalid)


@pytest.mark.parametrize("witness", [(), (BASE_S,) * 2], ids=["none", "two"])
def test_witnesses_are_required(witness: tuple[float, ...]) -> None:
    verdict = net_win.judge(replace(evidence(1.3), witness_base_s=witness), output="values")
    assert isinstance(verdict, Invalid)
    assert verdict.guard == "witness"


def test_a_win_only_the_workers_clock_sees_is_no_win() -> None:
    nudged = samples(lambda s: replace(s, worker_s=s.worker_s * 0.96), ("fast",))
    verdict = net_win.judge(spoiled(nudged, speed=1.0), output="values")
    assert isinstance(verdict, Inconclusive)
    assert "judge" in verdict.detail


def test_a_win_of_the_first_look_that_the_rest_denies_is_no_win() -> None:
    sound = evidence(1.3)
    fading = tuple(replace(timed, blocks=(*timed.blocks[:3], *(block(1.001),) * 7)) for timed in sound.processes)
    verdict = net_win.judge(replace(sound, processes=fading), output="values")
    assert isinstance(verdict, Inconclusive)
    assert verdict.measured[0].metric == "pooled_median_of_all"


def test_attempts_are_counted() -> None:
    assert isinstance(net_win.judge(replace(evidence(1.3), attempt=3), output="values"), Pass)
    assert isinstance(net_win.judge(replace(evidence(1.3), attempt=4), output="values"), Invalid)


def test_quick_form_is_provisional_and_needs_no_witness() -> None:
    quick = replace(evidence(1.3, processes=3, units=4, quick=True), witness_base_s=())
    verdict = net_win.judge(quick, output="values")
    assert isinstance(verdict, Pass)
    assert verdict.band == "provisional"


def test_quick_evidence_is_none_of_the_full_rule() -> None:
    verdict = net_win.judge(evidence(1.3, processes=3, units=4), output="values")
    assert isinstance(verdict, Invalid)
    assert verdict.guard == "incomplete"


def test_nothing_timed_is_invalid() -> None:
    assert isinstance(net_win.judge(TimingEvidence((), (BASE_S,) * 3, 1, quick=False), output="values"), Invalid)


def test_swapped_arms_are_refused() -> None:
    def swap(pair: TimedPair) -> TimedPair:
        return TimedPair(pair.candidate, pair.base, not pair.base_first)

    def swapped(timed: ProcessTiming) -> ProcessTiming:
        return replace(timed, blocks=tuple((swap(first), swap(second)) for first, second in timed.blocks))

    for one in evidence(1.3).processes:
        assert units(swapped(one)) == pytest.approx([1 / ratio for ratio in units(one)], rel=1e-15)
    verdict = net_win.judge(replace(spoiled(swapped), witness_base_s=(BASE_S / 1.3,) * 3), output="values")
    assert isinstance(verdict, Refusal)
    assert verdict.reason == "no_win"


@pytest.mark.parametrize("slowed", [6, 7])
def test_base_that_is_slowed_in_most_processes_wins_nothing(slowed: int) -> None:
    sleeps = FAULTS["base_arm_sleeps"][0]
    honest = evidence(1.011)
    processes = tuple(sleeps(timed) if timed.process < slowed else timed for timed in honest.processes)
    verdict = net_win.judge(replace(honest, processes=processes), output="values")
    assert isinstance(verdict, Inconclusive), verdict
    assert verdict.measured[0].metric == "witness_over_candidate"
