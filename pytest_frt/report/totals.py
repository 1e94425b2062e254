"""How many records a run was asked for, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_frt.contracts.verdict import Outcome

if TYPE_CHECKING:
    from pytest_frt.report.collected import Collected
    from pytest_frt.run.plan import RunPlan


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of records; what is emulated counts as asked for and waived, and else only by itself.

    Attributes:
        asked: Records and cells that were asked for.
        supported: Records whose device is here.
        judged: Those of them that were judged.
        correct: Those whose every correctness gate holds.
        certified: Those that are certified.
        waived: Records of which a failure was waived, emulated ones among them.
        emulated: Records that a CPU was judged for in the place of their device.
        emulated_correct: Those whose every correctness gate holds there.
    """

    asked: int
    supported: int
    judged: int
    correct: int
    certified: int
    waived: int
    emulated: int
    emulated_correct: int

    @classmethod
    def of(cls, collected: Collected, plan: RunPlan) -> Totals:
        """Count what a run has collected so far of its plan."""
        folds = {name: collected.folded(name) for name in collected.gates}
        here = [one for name, one in folds.items() if name not in collected.emulated]
        stood_in = [one for name, one in folds.items() if name in collected.emulated]
        return cls(
            asked=len(plan.records) + len(plan.not_supported),
            supported=len(plan.records) - len(plan.emulated),
            judged=len(here),
            correct=sum(one.correct for one in here),
            certified=sum(one.outcome is Outcome.CERTIFIED for one in here),
            waived=sum(one.outcome is Outcome.WAIVED for one in folds.values()),
            emulated=len(stood_in),
            emulated_correct=sum(one.correct for one in stood_in),
        )
