"""Timing evidence: what fresh processes measured, by two clocks. Never a verdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedSample:
    """One timed region of one arm.

    Attributes:
        arm: ``base`` or an arm name.
        state: Which prepared input.
        worker_s: Seconds by the worker's clock around the work.
        judge_s: Seconds by the judge's clock around the command.
        canary_s: Seconds of the canary timed next to it.
    """

    arm: str
    state: int
    worker_s: float
    judge_s: float
    canary_s: float


@dataclass(frozen=True, slots=True)
class TimedPair:
    """Two samples taken back to back; ``base_first`` says in which order."""

    base: TimedSample
    candidate: TimedSample
    base_first: bool


@dataclass(frozen=True, slots=True)
class ProcessTiming:
    """One fresh process: blocks of two pairs (AB BA or BA AB) for one arm, its null pairs, and the machine's state.

    Attributes:
        process: Index.
        blocks: Units, each of two pairs.
        null: Base-against-base pairs through a full detach/attach cycle (``candidate`` is the second base).
        output_mismatch: Worst cosine between kept timed outputs and the witness's, 1.0 when none was kept.
        steal_s: Stolen CPU seconds during the timed region (CPU), 0 where unknown.
        pressure: Share of time stalled on CPU by /proc/pressure, 0 where unknown.
        wall_s: Seconds of the timed region.
    """

    process: int
    blocks: tuple[tuple[TimedPair, TimedPair], ...]
    null: tuple[TimedPair, ...]
    output_mismatch: float
    steal_s: float
    pressure: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class TimingEvidence:
    """All processes of one record, and the witness processes that ran the base with no impl loaded.

    Attributes:
        processes: Per fresh process.
        witness_base_s: Base medians of witness processes, seconds.
        attempt: Which consecutive attempt this is, from 1.
        quick: True for the provisional form.
        repeats: Executions per timed region, equal in both arms and all processes; a sample's seconds are the region's.
        alpha: Level that a first attempt spends when it is one of a family; None for the rule's own.
        bytes_read: Fewest bytes that one execution of the arm must read, its weights at the narrowest; 0 if unknown.
        peak_bytes_s: Most bytes per second that witness processes moved in the device's fastest shared memory; 0 if
            unknown.
    """

    processes: tuple[ProcessTiming, ...]
    witness_base_s: tuple[float, ...]
    attempt: int
    quick: bool
    repeats: int = 1
    alpha: float | None = None
    bytes_read: int = 0
    peak_bytes_s: float = 0.0
