"""Outcome words as a page shows them: each with a sign of its own, so that no word hangs on its colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Look:
    """How one word looks.

    Attributes:
        sign: One character, different for every word that can stand beside it.
        tone: Colour family: ``good``, ``info``, ``warn``, ``bad`` or ``calm``.
        means: One line for people who see the word for the first time.
    """

    sign: str
    tone: str
    means: str


LOOKS: Final = {
    "CERTIFIED": Look("✓", "good", "every gate holds; a certificate may be signed"),
    "PASSED": Look("✓", "good", "this gate holds"),
    "CORRECT_NOT_FASTER": Look("=", "info", "right and really run, and no net win on this machine"),
    "REFUSED": Look("✕", "bad", "a gate does not hold"),
    "CRASH": Look("†", "bad", "the worker died"),
    "TIMEOUT": Look("…", "bad", "the worker gave no answer in time"),
    "INVALID_RUN": Look("!", "warn", "the measurement itself cannot be trusted: run again"),
    "INCONCLUSIVE": Look("?", "warn", "the evidence is sound and cannot tell"),
    "WAIVED": Look("w", "warn", "a failure that somebody answers for, until a day"),
    "NOT_SUPPORTED": Look("-", "calm", "cannot run here; never counted as passed"),
    "NOT_RUN": Look("○", "calm", "an earlier cause decided"),
}
"""Word to its look. ``PASSED`` is the word of a gate that holds; the others are outcomes."""

EXITS: Final = {
    0: "something was certified (or is correct, with timing switched off) and nothing failed",
    1: "a correctness failure, or a run that is not valid",
    4: "the run could not do what was asked for",
    6: "nothing was certified and nothing failed",
}
"""Exit code to what it says."""
