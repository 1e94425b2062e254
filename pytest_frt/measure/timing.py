"""From timed samples to unit ratios and summary numbers. Pure: no torch, no clock, no verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence

Clock = Callable[[TimedSample], float]
"""Reads one duration of a sample, in seconds."""


def worker_clock(sample: TimedSample) -> float:
    """Return the seconds the worker measured around the work: precise, and impl code shares its process."""
    return sample.worker_s


def judge_clock(sample: TimedSample) -> float:
    """Return the seconds the judge measured around the command: out of an impl's reach, pipe included."""
    return sample.judge_s


def canary_clock(sample: TimedSample) -> float:
    """Return the seconds of the canary timed next to the sample."""
    return sample.canary_s


def _log_ratio(pair: TimedPair, clock: Clock) -> float:
    """Return ln(base / candidate), NaN where a duration is no duration."""
    base, candidate = clock(pair.base), clock(pair.candidate)
    return math.log(base / candidate) if base > 0 and candidate > 0 else math.nan


def unit_ratio(pairs: Sequence[TimedPair], clock: Clock = worker_clock) -> float:
    """Return a unit's ratio: the geometric mean of base time over candidate time over its pairs.

    With both orders in the unit, a bias of the first or second place cancels.

    Args:
        pairs: The pairs of one block.
        clock: Which duration to read.
    """
    return math.exp(math.fsum(_log_ratio(pair, clock) for pair in pairs) / len(pairs))


def units(process: ProcessTiming, clock: Clock = worker_clock) -> list[float]:
    """Return the unit ratios of one process, in the order of collection."""
    return [unit_ratio(block, clock) for block in process.blocks]


def null_units(process: ProcessTiming) -> list[float]:
    """Return the null arm's unit ratios: base over second base, two successive pairs to a unit."""
    pairs = process.null
    return [unit_ratio(pairs[start : start + 2]) for start in range(0, len(pairs), 2)]


def balanced(block: Sequence[TimedPair]) -> bool:
    """Report whether a block ran half of its pairs base first and half candidate first."""
    return 2 * sum(pair.base_first for pair in block) == len(block)


def _samples(process: ProcessTiming) -> Iterable[TimedSample]:
    for block in process.blocks:
        for pair in block:
            yield pair.base
            yield pair.candidate


def base_median(process: ProcessTiming) -> float:
    """Return the median seconds of the base arm in one process, NaN when it timed nothing."""
    seconds = [pair.base.worker_s for block in process.blocks for pair in block]
    return median(seconds) if seconds else math.nan


def candidate_median(process: ProcessTiming) -> float:
    """Return the median seconds of the candidate arm in one process, NaN when it timed nothing."""
    seconds = [pair.candidate.worker_s for block in process.blocks for pair in block]
    return median(seconds) if seconds else math.nan


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


@dataclass(frozen=True, slots=True)
class Summary:
    """What the validity guards and the rule read of one record's timing.

    Attributes:
        worker: Unit ratios per process by the worker's clock.
        judge: The same units by the judge's clock.
        canary: Canary ratios of all units.
        null: Null-arm ratios of all processes.
        balanced: Per block, whether it ran both orders.
        clocks: ``(worker seconds, judge seconds)`` of every sample.
        base: Base median seconds per process.
        candidate: Candidate median seconds per process.
        candidate_samples: Worker seconds of every sample of the candidate.
        steal: Stolen CPU seconds per second, per process.
        pressure: Share of time some task waited for a CPU, per process.
        cosines: Worst cosine of kept outputs, per process.
    """

    worker: list[list[float]]
    judge: list[list[float]]
    canary: list[float]
    null: list[float]
    balanced: list[bool]
    clocks: list[tuple[float, float]]
    base: list[float]
    candidate: list[float]
    candidate_samples: list[float]
    steal: list[float]
    pressure: list[float]
    cosines: list[float]


def summarise(evidence: TimingEvidence) -> Summary:
    """Collect every number that decides a net win from the processes of one record."""
    processes = evidence.processes
    return Summary(
        worker=[units(process) for process in processes],
        judge=[units(process, judge_clock) for process in processes],
        canary=[ratio for process in processes for ratio in units(process, canary_clock)],
        null=[ratio for process in processes for ratio in null_units(process)],
        balanced=[balanced(block) for process in processes for block in process.blocks],
        clocks=[(sample.worker_s, sample.judge_s) for process in processes for sample in _samples(process)],
        base=[base_median(process) for process in processes],
        candidate=[candidate_median(process) for process in processes],
        candidate_samples=[
            pair.candidate.worker_s for process in processes for block in process.blocks for pair in block
        ],
        steal=[_share(process.steal_s, process.wall_s) for process in processes],
        pressure=[process.pressure for process in processes],
        cosines=[process.output_mismatch for process in processes],
    )
