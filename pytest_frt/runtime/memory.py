"""What an attach remembers: read before anything is verified, written when it was, and before anything is activated.

What withdraws (a newer policy, an index that stands) is written as soon as it is verified, so that nothing that comes
later in an attach can make it forgotten. What was accepted is written after everything else held.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from pytest_frt.certs import state_file
from pytest_frt.certs.outcomes import Accepted, Verdict
from pytest_frt.certs.policy import Policy
from pytest_frt.certs.state import Memory

StateChoice: TypeAlias = str | Path | Literal[False] | None
"""A state file; None for the default one of the policy's file, False for none."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The memory of one attach.

    Attributes:
        place: State file; None when nothing is remembered.
        policy: The policy that is attached under.
        moment: The clock of this attach.
    """

    place: Path | None
    policy: Policy
    moment: datetime

    def read(self) -> Memory | None:
        """Return what was accepted before; None when nothing is remembered.

        Raises:
            CertificateRefused: ``STATE_FILE``, ``STATE_CORRUPT``.
        """
        return None if self.place is None else state_file.read(self.place)

    def commit(self, verdict: Verdict, accepted: Iterable[Accepted] = ()) -> None:
        """Remember a policy in force, the indexes that stand, and certificates that passed everything.

        Called with these before the swap, so that nothing runs unremembered.

        Raises:
            CertificateRefused: another process activated something newer meanwhile.
            StorageFault: the state file cannot be written.
        """
        if self.place is not None and verdict.in_force:
            state_file.commit(self.place, self.policy, self.moment, accepted, verdict.standing)


def state_place(choice: StateChoice, trust: str | Path | Policy) -> Path | None:
    """Return the state file of a choice; None when nothing is remembered.

    Args:
        choice: See ``StateChoice``. A policy that was not read from a file has no default.
        trust: The policy, or its file.
    """
    if choice is False:
        return None
    if choice is not None:
        return Path(choice)
    source = Path(trust.source if isinstance(trust, Policy) else trust)
    return state_file.default_place(source) if source.is_file() else None
