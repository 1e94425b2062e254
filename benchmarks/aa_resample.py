"""Draw whole runs from a recording of a host against itself, and count how often the shipped rule activates.

A drawn run is eight recorded processes, drawn with replacement, each giving ten successive units from a random start:
what lasts within a process stays together. A run activates when FRT-NW-1 passes by both clocks, as the gate asks. The
known effects multiply the recorded seconds of the base. Writes ``<recording>.resampled.json`` beside the recording and
prints a table. Exit status 1: a bound does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import aa_data
import numpy as np
import numpy.typing as npt

from pytest_frt.contracts.timing import TimedSample, TimingEvidence
from pytest_frt.contracts.verdict import Pass
from pytest_frt.lab.timing_process import BASE
from pytest_frt.measure.timing import summarise
from pytest_frt.rules.net_win import FIRST, decide
from pytest_frt.rules.rows import rounded

RUNS: Final = 20_000
Units = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked of drawn runs.

    Attributes:
        name: For the table.
        slowed: Factor on the seconds of the base.
        op: ``<=`` or ``>=``.
        bound: Share of runs that activate.
        swapped: Exchange base and candidate.
    """

    name: str
    slowed: float
    op: str
    bound: float
    swapped: bool = False


CASES: Final = (
    Case("base against base", 1.0, "<=", 0.0),
    Case("base against base, arms swapped", 1.0, "<=", 0.0, swapped=True),
    Case("base slowed by 5 %", 1.05, ">=", 0.95),
    Case("base slowed by 10 %", 1.10, ">=", 0.95),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a case came to; ``median_ratio`` is that of the whole recording."""

    name: str
    runs: int
    activated: int
    by_worker: int
    op: str
    bound: float
    median_ratio: float
    holds: bool


def slowed(timing: TimingEvidence, factor: float) -> TimingEvidence:
    """Return the evidence as if every sample of the base had taken ``factor`` times as long, by both clocks."""

    def change(sample: TimedSample) -> TimedSample:
        if sample.arm != BASE:
            return sample
        more = (factor - 1) * sample.worker_s
        return TimedSample(sample.arm, sample.state, sample.worker_s + more, sample.judge_s + more, sample.canary_s)

    return aa_data.map_samples(timing, change)


def ratios(timing: TimingEvidence) -> tuple[Units, Units]:
    """Return unit ratios ``[processes, units]`` by the worker's and by the judge's clock, as a record holds them."""
    summary = summarise(timing)
    return np.array(rounded(summary.worker)), np.array(rounded(summary.judge))


def draw(rng: np.random.Generator, recorded: Sequence[Units]) -> list[list[list[float]]]:
    """Return one run, the same processes and units of each matrix."""
    processes, units = recorded[0].shape
    look = FIRST.looks[-1]
    chosen = rng.integers(0, processes, FIRST.processes)
    starts = rng.integers(0, units - look + 1, FIRST.processes)
    window = starts[:, None] + np.arange(look)
    return [matrix[chosen[:, None], window].tolist() for matrix in recorded]


def resample(timing: TimingEvidence, case: Case, runs: int, seed: int) -> Outcome:
    """Draw runs of one case and count.

    Raises:
        ValueError: the recording holds fewer units per process than a run takes.
    """
    recorded = ratios(slowed(timing, case.slowed))
    if recorded[0].ndim != 2 or recorded[0].shape[1] < FIRST.looks[-1]:  # noqa: PLR2004 (processes by units)
        raise ValueError(f"a process gave fewer than {FIRST.looks[-1]} units, or not all gave as many")
    if case.swapped:
        recorded = (1 / recorded[0], 1 / recorded[1])
    rng, by_worker, both = np.random.default_rng(seed), 0, 0
    for _ in range(runs):
        worker, judge = draw(rng, recorded)
        if isinstance(decide(FIRST, worker), Pass):
            by_worker += 1
            both += isinstance(decide(FIRST, judge), Pass)
    share = both / runs
    holds = share <= case.bound if case.op == "<=" else share >= case.bound
    return Outcome(case.name, runs, both, by_worker, case.op, case.bound, median(recorded[0].ravel().tolist()), holds)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = [
        "| case | median ratio | runs | activated | by the worker's clock alone | bound | holds |",
        "|---" * 7 + "|",
    ]
    lines += [
        f"| {one.name} | {one.median_ratio:.4f} | {one.runs} | {one.activated} | {one.by_worker} "
        f"| {one.op} {one.bound:g} | {'yes' if one.holds else 'NO'} |"
        for one in outcomes
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Resample one recording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args(arguments)
    recording = aa_data.read(said.recording)
    outcomes = [resample(recording.timing, case, said.runs, said.seed) for case in CASES]
    told = {
        "schema": 1,
        "recording": said.recording.name,
        "seed": said.seed,
        "cases": [asdict(one) for one in outcomes],
    }
    target = said.recording.with_name(said.recording.name.removesuffix(".json.gz") + ".resampled.json")
    target.write_text(json.dumps(told, indent=1) + "\n")
    print(table(outcomes), end="")
    return 0 if all(one.holds for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
