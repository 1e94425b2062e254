"""The ledger inside a CUDA graph: which seats were captured how often, and how often the graph was replayed.

Python runs once, at capture. What it counts there is a census of the graph, not service; service is the census times
the replays. Replays are counted by the device: one counter per graph, incremented by a node of the graph itself. One
that never ran is not counted, and one that did cannot be hidden.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import torch

from pytest_frt.errors import GuardRefused
from pytest_frt.seat.ledger import Admission, Ledger

MODE = "thread_local"
"""Other threads may use the device while this one captures: a ledger of theirs is no business of this graph."""


class CapturedGraph:
    """A CUDA graph whose seats are counted. A context manager around the captured work, then :meth:`replay`.

    Args:
        ledger: The ledger of the attachment whose seats run inside.
        stream: Stream to capture on; a new side stream when None.

    Raises:
        GuardRefused: at the end of capture, when a seat inside fell back to the host: a graph would repeat the
            fallback for as long as it is replayed, and nothing would ever count it.
    """

    def __init__(self, ledger: Ledger, stream: torch.cuda.Stream | None = None) -> None:
        self._ledger = ledger
        self._graph = torch.cuda.CUDAGraph()
        self._capture = torch.cuda.graph(self._graph, stream=stream, capture_error_mode=MODE)
        self._replays = torch.zeros((), dtype=torch.int64, device="cuda")
        self._census: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> Self:
        self._before = self._ledger.snapshot()
        self._capture.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._replays.add_(1)
        self._capture.__exit__(kind, error, trace)
        after = self._ledger.snapshot()
        self._ledger.restore(self._before)
        if kind is not None:
            return
        self._census = {
            seat: tuple(now - was for now, was in zip(counts, self._before[seat], strict=True))
            for seat, counts in after.items()
        }
        self._replays.zero_()
        self._refuse_fallbacks()
        self._ledger.add_graph(self)

    @property
    def census(self) -> dict[str, int]:
        """Seat id to served calls in one replay."""
        return {seat: counts[Admission.SERVED] for seat, counts in self._census.items()}

    @property
    def replays(self) -> int:
        """Replays that the device has run; waits for the device."""
        return int(self._replays.item())

    def replay(self) -> None:
        """Replay on the current stream."""
        self._graph.replay()

    def counts(self, seat: str) -> tuple[int, ...]:
        """Return a seat's calls by :class:`~pytest_frt.seat.ledger.Admission` over all replays."""
        replays = self.replays
        return tuple(count * replays for count in self._census.get(seat, (0,) * len(Admission)))

    def reset(self) -> None:
        """Count replays from zero again."""
        self._replays.zero_()

    def _refuse_fallbacks(self) -> None:
        for seat, counts in self._census.items():
            missed = {kind.word: counts[kind] for kind in Admission if kind.fallback and counts[kind]}
            if missed:
                said = ", ".join(f"{count} for {word}" for word, count in missed.items())
                raise GuardRefused(
                    f"seat {seat} fell back to the host inside a captured graph: {said}",
                    hint="capture calls of the certified form only",
                )
