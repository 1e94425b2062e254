"""The ledger: how often each seat served a call, and why it did not when it did not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

import torch

from pytest_frt.contracts.evidence import LedgerEntry

if TYPE_CHECKING:
    from torch import Tensor


class Admission(IntEnum):
    """What became of one call. ``SERVED`` ran the impl; every other value ran the host exactly.

    ``ROWS`` is declared band dispatch and no fault; the values after it are fallbacks.
    """

    SERVED = 0
    ROWS = 1
    FORM = 2
    KIND = 3
    DTYPE = 4
    WIDTH = 5
    DEVICE = 6
    GRAD = 7
    AUTOCAST = 8
    TRAINING = 9
    INPUT = 10

    @property
    def word(self) -> str:
        """The word a person reads, e.g. ``other input``."""
        return _WORDS[self]

    @property
    def fallback(self) -> bool:
        """True for every reason that is neither service nor band dispatch."""
        return self > Admission.ROWS


_WORDS = {
    Admission.SERVED: "served",
    Admission.ROWS: "rows",
    Admission.FORM: "call form",
    Admission.KIND: "tensor kind",
    Admission.DTYPE: "dtype",
    Admission.WIDTH: "width",
    Admission.DEVICE: "device",
    Admission.GRAD: "gradient",
    Admission.AUTOCAST: "autocast",
    Admission.TRAINING: "training mode",
    Admission.INPUT: "other input",
}


class Counts:
    """Counters of one seat.

    Attributes:
        seat: Seat id.
        eager: Calls by :class:`Admission`. One list item is incremented without a call in between, which no other
            thread of CPython can interrupt.
        traced: The same for calls inside compiled regions: one int64 scalar tensor per value, incremented by an
            operator of the graph itself, so that a replay counts and a region that is skipped does not.
        consecutive: Fallbacks since the last served call.
        restored: True once the seat was given back to the host for good.
        because: Why it was given back.
    """

    __slots__ = ("because", "consecutive", "eager", "restored", "seat", "traced")

    def __init__(self, seat: str, device: torch.device) -> None:
        self.seat = seat
        self.eager = [0] * len(Admission)
        self.traced = tuple(_static_counter(device) for _ in Admission)
        self.consecutive = 0
        self.restored = False
        self.because = ""

    def total(self, admission: Admission) -> int:
        """Return the calls with this outcome, eager and compiled."""
        return self.eager[admission] + int(self.traced[admission].item())

    def entry(self, replayed: Sequence[int] = (0,) * len(Admission)) -> LedgerEntry:
        """Return the counts as evidence.

        Args:
            replayed: Calls inside replayed graphs, by :class:`Admission`.
        """
        totals = [self.total(kind) + replayed[kind] for kind in Admission]
        reasons = {kind.word: totals[kind] for kind in Admission if kind.fallback and totals[kind]}
        return LedgerEntry(
            seat=self.seat,
            served=totals[Admission.SERVED],
            band=totals[Admission.ROWS],
            fallbacks=sum(reasons.values()),
            reasons=reasons,
            restored=self.restored,
        )

    def reset(self) -> None:
        """Set every counter to zero; a seat that was given back stays given back."""
        self.eager[:] = [0] * len(Admission)
        self.consecutive = 0
        with torch.no_grad():
            for counter in self.traced:
                counter.zero_()


class Replayed(Protocol):
    """A captured graph that says what its replays did."""

    def counts(self, seat: str) -> tuple[int, ...]:
        """Return a seat's calls by :class:`Admission` over all replays."""

    def reset(self) -> None:
        """Count replays from zero again."""


class Ledger:
    """The counters of all seats of one attachment, in the order of attaching."""

    def __init__(self, counts: Iterable[Counts]) -> None:
        self._counts = tuple(counts)
        self._graphs: list[Replayed] = []

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries())

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return one entry per seat, replays of captured graphs included."""
        return tuple(counts.entry(self._replayed(counts.seat)) for counts in self._counts)

    def add_graph(self, graph: Replayed) -> None:
        """Count the replays of a captured graph from now on."""
        self._graphs.append(graph)

    def snapshot(self) -> dict[str, tuple[int, ...]]:
        """Return each seat's eager counts by :class:`Admission`."""
        return {counts.seat: tuple(counts.eager) for counts in self._counts}

    def restore(self, snapshot: Mapping[str, Sequence[int]]) -> None:
        """Set the eager counts back: calls that were captured have not run."""
        for counts in self._counts:
            counts.eager[:] = snapshot[counts.seat]

    def _replayed(self, seat: str) -> tuple[int, ...]:
        each = [graph.counts(seat) for graph in self._graphs]
        return tuple(sum(column) for column in zip(*each, strict=True)) if each else (0,) * len(Admission)

    def reset(self) -> None:
        """Set every counter of every seat to zero."""
        for counts in self._counts:
            counts.reset()
        for graph in self._graphs:
            graph.reset()

    def because(self) -> dict[str, str]:
        """Return seat id to reason, for the seats that were given back to the host."""
        return {counts.seat: counts.because for counts in self._counts if counts.restored}


def _static_counter(device: torch.device) -> Tensor:
    counter = torch.zeros((), dtype=torch.int64, device=device)
    if device.type == "cuda":
        # CUDA graph replay writes to fixed addresses: a counter that may move would keep its region out of a graph.
        torch._dynamo.mark_static_address(counter, guard=True)  # noqa: SLF001 (no public name)
    return counter
