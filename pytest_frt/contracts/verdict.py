"""Verdicts of gates and outcome words of records: closed types."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Measured:
    """One number a gate compared: ``metric op required``, over ``n`` samples."""

    metric: str
    value: float
    op: str
    required: float
    n: int
    at: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """The gate holds. ``band`` is ``pass`` or ``warn`` (``warn`` is refused by the default policy)."""

    gate: str
    measured: tuple[Measured, ...] = ()
    band: str = "pass"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The gate does not hold, with number, threshold and place; nothing is truncated.

    Attributes:
        gate: Gate or stage that refuses (``parity``, ``bind``, ...).
        reason: Stable word, e.g. ``nan``, ``gain``, ``input_mutated``, ``no_win``, ``envelope``.
        detail: Sentence for people.
        at: Seat id or metric place.
        measured: The numbers behind it.
    """

    gate: str
    reason: str
    detail: str
    at: str = ""
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """Evidence is sound but cannot tell. Activates nothing."""

    gate: str
    detail: str
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """The run itself broke a validity guard; neither a win nor a loss."""

    gate: str
    guard: str
    detail: str
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True, slots=True)
class Crashed:
    """The worker died: exit status or signal is the evidence. ``kind`` is ``CRASH`` or ``TIMEOUT``."""

    gate: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class NotRun:
    """An earlier gate decided; ``because`` names it."""

    gate: str
    because: str


Verdict = Pass | Refusal | Inconclusive | Invalid | Crashed | NotRun


class Outcome(StrEnum):
    """The words a person reads, distinct in terminal, JSON, JUnit and HTML."""

    CERTIFIED = "CERTIFIED"
    CORRECT_NOT_FASTER = "CORRECT_NOT_FASTER"
    REFUSED = "REFUSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID_RUN = "INVALID_RUN"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    WAIVED = "WAIVED"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    NOT_RUN = "NOT_RUN"


@dataclass(frozen=True, slots=True)
class SeatVerdicts:
    """One gate over all seats of a record: which survive, which are refused and why."""

    gate: str
    survivors: tuple[str, ...]
    refused: tuple[Refusal, ...] = ()
    measured: tuple[Measured, ...] = field(default=())
