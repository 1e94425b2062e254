"""Run FRT-NW-1 and its mutants on simulated noise, and hold every share of activated runs against its bound.

The rule is the shipped one, ``pytest_frt.rules.net_win.decide``; the noise is that of ``noise_model``. Writes
``net_win_simulation.json`` and the same as a table, ``net_win_simulation.md``. Exit status 1: a bound does not hold.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from noise_model import Units, simulate

from pytest_frt.contracts.verdict import Pass
from pytest_frt.rules import validity
from pytest_frt.rules.net_win import BY_ATTEMPT, FIRST, QUICK, Rule, decide, family_level, rule_of

RESULTS: Final = Path(__file__).with_name("results")
RUNS: Final = 20_000
CHUNK: Final = 1_000
ENVIRONMENTS: Final = ("quiet", "typical", "rough")
POWER: Final = {"quiet": 0.95, "typical": 0.95, "rough": 0.80}
MARGIN: Final = 1.02
FAMILY: Final = rule_of(1, family_level(0.01, 20)) or FIRST
EACH_LOOK: Final = replace(FIRST, name="5 % at each look", bounds=(17, 31, 48))
"""The smallest counts of 24, 48 and 80 fair signs whose own tail is at most 5 %."""

Draw = Callable[[str, float, int, Sequence[int]], Iterator[bool]]
"""Environment, speed, runs and seed to whether each run activates."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One share to estimate and the bound that it must keep.

    Attributes:
        rule: What is applied to the units.
        environment: Of the noise model.
        speed: True speed of the candidate.
        draw: Yields whether each run activates.
        op: ``<=`` or ``>=``, or empty where nothing is claimed; a mutant must *break* a bound, so its ``op`` is ``>``.
        bound: Share of the runs.
    """

    rule: str
    environment: str
    speed: float
    draw: Draw
    op: str = ""
    bound: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """What an entry came to."""

    rule: str
    environment: str
    speed: float
    runs: int
    activated: int
    op: str
    bound: float
    holds: bool


def passes(rule: Rule, units: Units) -> Iterator[bool]:
    """Yield whether the shipped rule passes each run of ``[runs, processes, units]``."""
    return (isinstance(decide(rule, run), Pass) for run in units.tolist())


def alone(rule: Rule, *, fixed_order: bool = False) -> Draw:
    """One run of a rule."""

    def draw(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
        shape = {"processes": rule.processes, "units": rule.looks[-1]}
        return passes(rule, simulate(environment, speed, runs=runs, seed=seed, fixed_order=fixed_order, **shape))

    return draw


def one_process(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
    """All 80 units from one start, dealt out as if eight had given them."""
    units = simulate(environment, speed, runs=runs, seed=seed, processes=1, units=FIRST.units)
    return passes(FIRST, units.reshape(runs, FIRST.processes, FIRST.looks[-1]))


def inverted(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
    """Candidate time over base time."""
    return passes(FIRST, 1 / simulate(environment, speed, runs=runs, seed=seed))


def attempts(rules: Sequence[Rule]) -> Draw:
    """Try again until a rule passes."""

    def draw(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
        each = [
            passes(rule, simulate(environment, speed, runs=runs, seed=[*seed, turn])) for turn, rule in enumerate(rules)
        ]
        return (any(tried) for tried in zip(*map(list, each), strict=True))

    return draw


def best_of(impls: int, *, confirm: bool) -> Draw:
    """Time several impls and take the fastest that passes, on the pairs that chose it or on fresh ones."""

    def draw(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
        rivals = [list(passes(FIRST, simulate(environment, speed, runs=runs, seed=[*seed, k]))) for k in range(impls)]
        fresh = simulate(environment, speed, runs=runs, seed=[*seed, impls]).tolist()
        for chosen, pairs in zip(map(any, zip(*rivals, strict=True)), fresh, strict=True):
            yield chosen and (not confirm or isinstance(decide(FIRST, pairs), Pass))

    return draw


def slowed_base(*, guard: bool) -> Draw:
    """Let a harness slow everything that runs in the base's turn by 5 %: the canary beside it shows it."""

    def draw(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
        units = 1.05 * simulate(environment, speed, runs=runs, seed=seed)
        canary = 1.05 * simulate(environment, 1.0, runs=runs, seed=[*seed, 1])
        for passed, beside in zip(passes(FIRST, units), canary.reshape(runs, -1).tolist(), strict=True):
            yield passed and not (guard and validity.control_ratio(validity.CANARY, beside))

    return draw


def nudged_timer(*, guard: bool) -> Draw:
    """Let the worker's clock run 8 % slow in the candidate's turn; samples of 30 ms, a pipe of 0.2 ms."""

    def draw(environment: str, speed: float, runs: int, seed: Sequence[int]) -> Iterator[bool]:
        units = simulate(environment, speed, runs=runs, seed=seed)
        told = [(0.030, 0.0302), (0.030 * 0.92, 0.0302)] * FIRST.units
        breached = validity.clocks_agree(told) is not None
        return (passed and not (guard and breached) for passed in passes(FIRST, units / 0.92))

    return draw


def claims() -> Iterator[Entry]:
    """Yield what is claimed of the rule, with the bounds of the decision record."""
    for name in ENVIRONMENTS:
        for rule in (FIRST, FAMILY):
            yield Entry(rule.name, name, 1.00, alone(rule), "<=", 0.0)
            yield Entry(rule.name, name, 1.01, alone(rule), "<=", 0.001)
            yield Entry(rule.name, name, MARGIN, alone(rule), "<=", 0.01 if rule is FIRST else 0.0025)
        yield Entry(FIRST.name, name, 1.03, alone(FIRST))
        yield Entry(FIRST.name, name, 1.05, alone(FIRST), ">=", POWER[name])
        yield Entry(FIRST.name, name, 1.10, alone(FIRST), ">=", 0.999)
        yield Entry(FAMILY.name, name, 1.05, alone(FAMILY), ">=", POWER[name] - 0.15)
        yield Entry(QUICK.name, name, 1.00, alone(QUICK), "<=", 0.001)
        yield Entry(QUICK.name, name, MARGIN, alone(QUICK), "<=", 0.01)
        yield Entry(QUICK.name, name, 1.05, alone(QUICK))
        yield Entry("three counted attempts", name, 1.01, attempts(tuple(BY_ATTEMPT.values())), "<=", 0.001)
        yield Entry("three counted attempts", name, MARGIN, attempts(tuple(BY_ATTEMPT.values())), "<=", 0.02)
        yield Entry("best of 4, confirmed on fresh pairs", name, MARGIN, best_of(4, confirm=True), "<=", 0.01)
    yield Entry("base slowed 5 % beside its canary", "typical", 1.0, slowed_base(guard=True), "<=", 0.0)
    yield Entry("worker's clock 8 % slow", "typical", 1.0, nudged_timer(guard=True), "<=", 0.0)


def mutants() -> Iterator[Entry]:
    """Yield the mutants of the rule, each where it must break a bound that the rule keeps."""
    yield Entry("mutant: candidate always first", "typical", MARGIN, alone(FIRST, fixed_order=True), ">", 0.01)
    yield Entry("mutant: candidate always first", "rough", 1.01, alone(FIRST, fixed_order=True), ">", 0.001)
    yield Entry("mutant: one process", "typical", MARGIN, one_process, ">", 0.01)
    yield Entry("mutant: one process", "rough", 1.01, one_process, ">", 0.001)
    for name in ENVIRONMENTS:
        yield Entry("mutant: 5 % at each look", name, MARGIN, alone(EACH_LOOK), ">", 0.01)
    yield Entry("mutant: inverted ratio", "typical", 0.95, inverted, ">", 0.01)
    yield Entry("mutant: five uncounted attempts", "typical", MARGIN, attempts((FIRST,) * 5), ">", 0.02)
    yield Entry("mutant: best of 4 on the pairs that chose it", "typical", MARGIN, best_of(4, confirm=False), ">", 0.01)
    yield Entry("mutant: margin of 1.00", "typical", 1.01, alone(replace(FIRST, margin=1.0)), ">", 0.001)
    yield Entry("mutant: canary not looked at", "typical", 1.0, slowed_base(guard=False), ">", 0.01)
    yield Entry("mutant: clocks not compared", "typical", 1.0, nudged_timer(guard=False), ">", 0.01)


def estimate(entry: Entry, runs: int, seed: int) -> Result:
    """Run an entry in chunks; the same seed gives the same count."""
    activated = 0
    for chunk, first in enumerate(range(0, runs, CHUNK)):
        some = min(CHUNK, runs - first)
        activated += sum(entry.draw(entry.environment, entry.speed, some, [seed, chunk]))
    share = activated / runs
    holds = {"<=": share <= entry.bound, ">=": share >= entry.bound, ">": share > entry.bound, "": True}[entry.op]
    return Result(entry.rule, entry.environment, entry.speed, runs, activated, entry.op, entry.bound, holds)


def table(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table: the share of runs that activate, and the bound."""
    lines = ["| rule | noise | true speed | runs | activated | share | bound | holds |", "|" + "---|" * 8]
    for one in results:
        bound = f"{one.op} {one.bound:g}" if one.op else "-"
        shown = f"| {one.rule} | {one.environment} | {one.speed:.2f} | {one.runs} | {one.activated} "
        lines.append(f"{shown}| {one.activated / one.runs:.5f} | {bound} | {'yes' if one.holds else 'NO'} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Estimate every entry and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    said = parser.parse_args(arguments)
    results = []
    for index, entry in enumerate([*claims(), *mutants()]):
        results.append(estimate(entry, said.runs, said.seed * 1000 + index))
        print(table(results[-1:]).splitlines()[-1], flush=True)
    told = {"schema": 1, "runs": said.runs, "seed": said.seed, "numpy": np.__version__}
    said.out.mkdir(parents=True, exist_ok=True)
    body = json.dumps({**told, "entries": [asdict(one) for one in results]}, indent=1)
    (said.out / "net_win_simulation.json").write_text(body + "\n")
    (said.out / "net_win_simulation.md").write_text(table(results))
    return 0 if all(one.holds for one in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
