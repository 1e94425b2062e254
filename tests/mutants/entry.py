"""What a mutant is: a sound part with one fault, the gate that must refuse it, and the word it must use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.mutants.plan import Plan


def nothing() -> None:
    """Undo nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of a plan.

    Attributes:
        name: In ids and in the table.
        change: Takes a sound plan and returns it with the fault.
        undo: Takes back what the fault did to the process.
    """

    name: str
    change: Callable[[Plan], Plan]
    undo: Callable[[], object] = nothing


SOUND: Final = Fault("sound", lambda plan: plan)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One entry.

    Attributes:
        seat: Name of a seat in ``seats.SEATS``.
        scheme: Scheme it runs.
        fault: What is wrong with it.
        word: Reason of the refusal; ``a|b`` where the drawn inputs decide which of two right words comes first.
        gate: Gate meant for it.
        trained: Reason on trained weights where it is another one.
    """

    seat: str
    scheme: str
    fault: Fault
    word: str
    gate: str = "parity"
    trained: str | None = None

    @property
    def id(self) -> str:
        """Return the readable id."""
        return f"{self.seat}-{self.scheme}-{self.fault.name}"

    @property
    def places(self) -> tuple[str, ...]:
        """Return where it is judged: the lifecycle battery runs on the small twin of a host alone."""
        return ("tiny", "trained") if self.gate == "parity" else ("tiny",)

    def expected(self, place: str) -> str:
        """Return the word expected on a place."""
        return self.word if place == "tiny" or self.trained is None else self.trained
