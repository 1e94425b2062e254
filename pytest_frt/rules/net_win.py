"""FRT-NW-1: an exact group-sequential sign test on paired units from fresh processes (docs/adr/0004).

A unit is a block of two pairs in both orders; its ratio is base time over candidate time, the geometric mean of
the two pairs. Ratios arrive process-major: one sequence of units per fresh process, in the order of collection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Final

from pytest_frt.contracts.verdict import Inconclusive, Invalid, Measured, Pass, Refusal, Verdict
from pytest_frt.rules.exact import order_interval, spending_bounds
from pytest_frt.rules.thresholds import (
    FUTILE_MEDIAN,
    INTERVAL_CONFIDENCE,
    NET_WIN_ALPHA,
    NET_WIN_MARGIN,
    PROCESS_MARGIN,
)

GATE: Final = "net_win"
NO_WIN: Final = "no_win"
PROVISIONAL: Final = "provisional"

Processes = Sequence[Sequence[float]]
"""Unit ratios, one sequence per process."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of the rule.

    Attributes:
        name: What the detail of a verdict calls it.
        processes: Fresh processes, exactly.
        looks: Units per process at each look; the last is also the most a process may give.
        bounds: Units above the margin, over all processes, that pass at each look.
        medians: Process medians above ``process_margin`` that the same look must show.
        margin: Speed a unit must exceed to count.
        process_margin: Speed a process median must exceed.
        futile_median: Pooled median below which any look refuses.
    """

    name: str
    processes: int
    looks: tuple[int, ...]
    bounds: tuple[int, ...]
    medians: int
    margin: float = NET_WIN_MARGIN.value
    process_margin: float = PROCESS_MARGIN.value
    futile_median: float = FUTILE_MEDIAN.value

    @property
    def units(self) -> int:
        """Units of a complete run."""
        return self.processes * self.looks[-1]

    @property
    def losses_allowed(self) -> int:
        """Units that may miss the margin before the last bound is out of reach."""
        return self.units - self.bounds[-1]


FIRST: Final = Rule("FRT-NW-1", processes=8, looks=(3, 6, 10), bounds=(20, 34, 54), medians=7)
"""Pocock-type spending of 0.005 over 24, 48 and 80 units; the exact level spent at the margin is 0.0040."""
BY_ATTEMPT: Final = {
    1: FIRST,
    2: replace(FIRST, name="FRT-NW-1 attempt 2", bounds=(20, 35, 55)),
    3: replace(FIRST, name="FRT-NW-1 attempt 3", bounds=(21, 36, 55)),
}
"""Attempt j spends 0.005 / 2^(j-1), so that trying again cannot buy a win: exact levels 0.0040, 0.0020, 0.0009."""
QUICK: Final = Rule("quick form", processes=3, looks=(4,), bounds=(11,), medians=3)
"""3 processes x 8 pairs: 11 of 12 units has exact level 0.0032. Three starts show too little: provisional only."""


def family_level(alpha: float, members: int) -> float:
    """Return the level of each of ``members`` judgements, so that all together pass one at the margin with ``alpha``.

    Bonferroni's share, whatever the judgements have in common; never more than the level that a certificate is held to.

    Args:
        alpha: Level of the family.
        members: Records and unions that are judged.
    """
    return min(NET_WIN_ALPHA.value, alpha / members)


def rule_of(attempt: int, alpha: float | None = None) -> Rule | None:
    """Return the rule of a counted attempt, None when there is no such attempt.

    Args:
        attempt: Which consecutive attempt, from 1; attempt j spends ``alpha / 2^(j-1)``.
        alpha: Level of the first attempt; None, or anything above it, for the rule's own 0.005.
    """
    plain = BY_ATTEMPT.get(attempt)
    if plain is None or alpha is None or alpha >= NET_WIN_ALPHA.value:
        return plain
    units = tuple(plain.processes * look for look in plain.looks)
    bounds = spending_bounds(units, alpha / 2 ** (attempt - 1))
    return replace(plain, name=f"{plain.name} at level {alpha:g}", bounds=bounds)


@dataclass(frozen=True)
class _View:
    """What has been collected at one look. Medians are found when a verdict asks, and once."""

    rule: Rule
    processes: Processes
    units: tuple[float, ...]
    wins: int

    @classmethod
    def of(cls, rule: Rule, processes: Processes) -> _View:
        units = tuple(ratio for process in processes for ratio in process)
        return cls(rule, processes, units, wins=sum(ratio > rule.margin for ratio in units))

    @cached_property
    def pooled(self) -> float:
        return median(self.units)

    @cached_property
    def medians(self) -> tuple[float, ...]:
        return tuple(median(process) for process in self.processes if process)

    @cached_property
    def medians_over(self) -> int:
        return sum(value > self.rule.process_margin for value in self.medians)

    def measured(self, bound: int) -> tuple[Measured, ...]:
        """State the numbers behind a verdict."""
        rule, medians = self.rule, self.medians
        n, interval = len(self.units), order_interval(self.units, INTERVAL_CONFIDENCE.value)
        return (
            Measured("pooled_median", self.pooled, ">", rule.margin, n),
            Measured("interval_low", interval.low, ">", rule.margin, n),
            Measured("interval_high", interval.high, ">", rule.margin, n),
            Measured("wins", self.wins, ">=", bound, n),
            Measured("process_medians_over", self.medians_over, ">=", rule.medians, len(medians)),
            *(
                Measured("process_median", value, ">", rule.process_margin, 1, at=f"process {index}")
                for index, value in enumerate(medians)
            ),
        )


def _unusable(rule: Rule, processes: Processes) -> Invalid | None:
    """Name what makes the data no data of this rule."""
    if len(processes) > rule.processes:
        found = f"{len(processes)} processes, {rule.name} takes {rule.processes}"
        return Invalid(GATE, "process_count", found)
    for index, process in enumerate(processes):
        if len(process) > rule.looks[-1]:
            found = f"process {index} gave {len(process)} units, {rule.name} takes at most {rule.looks[-1]}"
            return Invalid(GATE, "unit_count", found)
        for unit, ratio in enumerate(process):
            if not (math.isfinite(ratio) and ratio > 0):
                return Invalid(GATE, "ratio", f"process {index} unit {unit} has ratio {ratio}, no time ratio")
    return None


def _futile(rule: Rule, view: _View, *, whole_look: bool) -> Refusal | None:
    """Refuse when the last bound cannot be reached any more, or when a look shows a loss."""
    losses = len(view.units) - view.wins
    if whole_look and view.pooled < rule.futile_median:
        detail = f"pooled median {view.pooled:.4f} of {len(view.units)} units is a loss"
        return Refusal(GATE, NO_WIN, detail, measured=view.measured(rule.bounds[-1]))
    if losses > rule.losses_allowed:
        detail = (
            f"{losses} of {len(view.units)} units are not above {rule.margin}: {rule.bounds[-1]} of {rule.units} "
            f"can no longer be reached (pooled median {view.pooled:.4f})"
        )
        return Refusal(GATE, NO_WIN, detail, measured=view.measured(rule.bounds[-1]))
    return None


def _final(rule: Rule, view: _View) -> Verdict:
    """Decide what the last look did not pass."""
    detail = (
        f"{view.wins} of {len(view.units)} units above {rule.margin} (needs {rule.bounds[-1]}), {view.medians_over} of "
        f"{len(view.medians)} process medians above {rule.process_margin} (needs {rule.medians}), "
        f"pooled median {view.pooled:.4f}"
    )
    measured = view.measured(rule.bounds[-1])
    if view.pooled > rule.margin:
        return Inconclusive(GATE, detail, measured)
    return Refusal(GATE, NO_WIN, detail, measured=measured)


def decide(rule: Rule, processes: Processes) -> Verdict | None:
    """Apply ``rule`` to what has been collected, look by look.

    Args:
        rule: The form of the rule.
        processes: Unit ratios per process, in the order of collection; processes may still be missing or short.

    Returns:
        The verdict of the first look that decides, or None when more units are needed.
    """
    if invalid := _unusable(rule, processes):
        return invalid
    whole = min(map(len, processes)) if len(processes) == rule.processes else 0
    for look, bound in zip(rule.looks, rule.bounds, strict=True):
        if look > whole:
            break
        view = _View.of(rule, [process[:look] for process in processes])
        if view.wins >= bound and view.medians_over >= rule.medians:
            return Pass(GATE, view.measured(bound))
        if look == rule.looks[-1]:
            return _final(rule, view)
        if refusal := _futile(rule, view, whole_look=True):
            return refusal
    if any(processes):
        return _futile(rule, _View.of(rule, processes), whole_look=False)
    return None


def _incomplete(rule: Rule, processes: Processes) -> Invalid:
    units = sum(map(len, processes))
    detail = f"{units} units of {len(processes)} processes decide nothing; {rule.name} goes up to {rule.units}"
    return Invalid(GATE, "incomplete", detail)


def decide_after(processes: Processes, *, attempt: int = 1, alpha: float | None = None) -> Verdict | None:
    """Return the verdict of FRT-NW-1 as soon as there is one, None to collect more units.

    Args:
        processes: Unit ratios of the processes so far, in any state of completion.
        attempt: Which consecutive attempt this is, from 1.
        alpha: As in :func:`rule_of`.
    """
    rule = rule_of(attempt, alpha)
    if rule is None:
        detail = f"attempt {attempt} of at most {max(BY_ATTEMPT)}: only a change of the key opens new attempts"
        return Invalid(GATE, "attempts", detail)
    return decide(rule, processes)


def judge_ratios(processes: Processes, *, attempt: int = 1, alpha: float | None = None) -> Verdict:
    """Judge a finished collection by FRT-NW-1.

    Args:
        processes: Unit ratios of eight processes; they may hold only 3 or 6 units each where that look decided.
        attempt: Which consecutive attempt this is, from 1.
        alpha: As in :func:`rule_of`.
    """
    verdict = decide_after(processes, attempt=attempt, alpha=alpha)
    return verdict or _incomplete(BY_ATTEMPT[attempt], processes)


def judge_quick(processes: Processes) -> Verdict:
    """Judge the quick form; its pass has ``band="provisional"`` and never certifies.

    Args:
        processes: Unit ratios of three processes, four units each.
    """
    verdict = decide(QUICK, processes) or _incomplete(QUICK, processes)
    return replace(verdict, band=PROVISIONAL) if isinstance(verdict, Pass) else verdict
