"""The handle of an attached model: which certificate every seat runs on, what it did, and the way back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pytest_frt.certs.codes import next_step
from pytest_frt.certs.strict_json import one_line
from pytest_frt.contracts.evidence import LedgerEntry
from pytest_frt.runtime.listing import listed
from pytest_frt.seat.swap import Attachment

SHORT: Final = 12
"""Digits of a certificate's name that people are shown."""
CERTIFIED: Final = "certified"
HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class SeatDecision:
    """Why a seat runs what it runs.

    Attributes:
        seat: Seat id.
        record: Record key id of the certificate that was looked at.
        certificate: Its payload sha256.
        code: Empty when the certificate is used, else the stable refusal code.
        reason: Empty when it is used, else what differs.
        hint: The next step; empty when there is none.
    """

    seat: str
    record: str
    certificate: str
    code: str = ""
    reason: str = ""
    hint: str = ""

    @property
    def used(self) -> bool:
        """True when the seat runs on this certificate."""
        return not self.code


@dataclass(frozen=True, slots=True)
class FileDecision:
    """A certificate, or a line of a file, that was refused before its seats were looked at.

    Attributes:
        source: ``file:line``.
        title: Record key or plan name; empty as long as nothing is verified.
        code: Stable refusal code.
        reason: What differs.
    """

    source: str
    title: str
    code: str
    reason: str


class Handle:
    """Returned by ``attach``. Detaches on :meth:`detach`, or at the end of a ``with`` block.

    Attributes:
        seats: A decision per seat and certificate that names it, used ones first.
        refused: Certificates refused before their seats were looked at.
        plan: Payload sha256 of the plan certificate that was activated; empty when none was.
        places: Kernel repos, cached releases and distributions whose certificates were looked at.
    """

    def __init__(
        self,
        attachment: Attachment | None,
        seats: Iterable[SeatDecision],
        refused: Iterable[FileDecision],
        plan: str = "",
        places: Iterable[str] = (),
    ) -> None:
        self._attachment = attachment
        self.seats = tuple(sorted(seats, key=lambda one: (not one.used, one.record)))
        self.refused = tuple(refused)
        self.plan = plan
        self.places = tuple(places)

    @property
    def active(self) -> bool:
        """True while at least one seat is attached."""
        return self._attachment is not None and self._attachment.active

    def explain(self) -> str:
        """Return, for people, which certificate each seat runs on or why none; seats of one answer share a line."""
        restored = {} if self._attachment is None else self._attachment.ledger.because()
        moved = {} if self._attachment is None or not self.active else self._attachment.unsound()
        lines = [self._headline()]
        answers: dict[tuple[str, str], list[str]] = {}
        for one in self.seats:
            answer = _answer(one, restored.get(one.seat, ""), moved.get(one.seat, ()))
            answers.setdefault(answer, []).append(one.seat)
        lines += [f"  {state:<10} {listed(seats)}  {why}" for (state, why), seats in answers.items()]
        lines += [
            one_line(f"  refused    {one.title or one.source}  [{one.code}] {one.reason}  next: {next_step(one.code)}")
            for one in self.refused
        ]
        lines += [one_line(f"  found in   {place}") for place in self.places]
        return "\n".join(lines)

    def report(self) -> tuple[LedgerEntry, ...]:
        """Return the ledger: what each attached seat served and why it did not when it did not."""
        return () if self._attachment is None else self._attachment.ledger.entries()

    def detach(self) -> None:
        """Put the host back exactly. A second call does nothing.

        Raises:
            SwapRefused: something else sits at a seat now, or the originals were freed; nothing was changed.
        """
        if self._attachment is not None:
            self._attachment.detach()

    def finalize(self, spill: str | Path | None = None) -> int:
        """Free the originals; from then on calls outside the certified form raise.

        Args:
            spill: Directory to keep them in, so that :meth:`detach` stays possible; without one it is not.

        Returns:
            Bytes that only the originals held. Tensors the model uses elsewhere stay.

        Raises:
            SwapRefused: detached already, or a packed tensor changed since.
        """
        return 0 if self._attachment is None else self._attachment.finalize(spill)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def __str__(self) -> str:
        return self.explain()

    def _headline(self) -> str:
        used = {one.seat for one in self.seats if one.used}
        left = len({one.seat for one in self.seats} - used)
        state = f"{len(used) or 'no'} seats {'detached' if used and not self.active else 'attached'}"
        by = f" by plan {self.plan[:SHORT]}" if self.plan else ""
        return f"{state}{by}, {left} left to the host"


def _answer(one: SeatDecision, restored: str, moved: tuple[str, ...]) -> tuple[str, str]:
    """Return what a seat runs on, and why."""
    certificate = f"{one.record} {one.certificate[:SHORT]}"
    if not one.used:
        hint = f"  next: {one.hint}" if one.hint else ""
        return HOST, f"[{one.code}] {one.reason}  ({certificate}){hint}"
    if restored:
        return HOST, f"given back: {restored}  ({certificate})"
    note = f"  changed since: {', '.join(moved)}" if moved else ""
    return CERTIFIED, f"({certificate}){note}"
