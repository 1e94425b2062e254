"""What one pytest item has to tell: the message that travels with its report to the controller."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pytest_frt.contracts.verdict import Outcome, Verdict
from pytest_frt.errors import FrtError
from pytest_frt.rules.fold import FAILING_GATES, fold
from pytest_frt.run.results import GateResult, UnionResult

EMULATED_WORD: Final = "EMULATED"
"""What pytest calls an item whose gate holds on a CPU in the place of an absent device: no outcome, and no pass."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of our tree that kept an item from its verdict."""

    code: str
    message: str
    exit_code: int

    @classmethod
    def of(cls, error: FrtError) -> Fault:
        """Keep what a report needs of an error."""
        return cls(error.code, error.diagnostics(), error.exit_code)


@dataclass(frozen=True, slots=True)
class Told:
    """One item's message.

    Attributes:
        subject: Record key id, or union name.
        gate: Gate that the item judges.
        result: Its result, for a gate of a record.
        union: Its result, for a union.
        fault: Why there is neither.
    """

    subject: str
    gate: str
    result: GateResult | None = None
    union: UnionResult | None = None
    fault: Fault | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, None when a fault came first."""
        found = self.result or self.union
        return found.verdict if found else None


def word(verdict: Verdict) -> str:
    """Return the outcome word of a verdict that does not hold; empty when it holds."""
    outcome = fold([verdict], (verdict.gate,)).outcome
    return "" if outcome is Outcome.CERTIFIED else outcome.value


def status(told: Told, emulated: Collection[str]) -> str:
    """Return the word that an item ends in; empty for one that passes, which what is emulated never does."""
    if told.verdict is None:
        return ""
    return word(told.verdict) or (EMULATED_WORD if told.subject in emulated else "")


def fails(verdict: Verdict) -> bool:
    """Report whether a verdict fails its item. What is not faster, not decided or not run is a finding."""
    outcome = fold([verdict], (verdict.gate,)).outcome
    if outcome is Outcome.REFUSED:
        return verdict.gate in FAILING_GATES
    return outcome in {Outcome.CRASH, Outcome.TIMEOUT, Outcome.INVALID_RUN}
