"""Seats that were attached together: switching them, freeing their originals, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import nn

from pytest_frt.errors import SwapRefused
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.guard import Guard
from pytest_frt.seat.ledger import Ledger
from pytest_frt.seat.lock import lock, unlock
from pytest_frt.seat.module import SeatModule
from pytest_frt.seat.release import Freed, free


@dataclass(frozen=True, slots=True)
class Place:
    """One occurrence of a module in the tree: a tied module has several.

    Attributes:
        parent: The module that holds it.
        name: Its name there.
        path: Dotted path of this occurrence.
        host: The host's own module.
        seat: The module that stands in.
    """

    parent: nn.Module
    name: str
    path: str
    host: nn.Module
    seat: SeatModule

    @property
    def now(self) -> nn.Module | None:
        """The module that is there now."""
        return self.parent._modules.get(self.name)  # noqa: SLF001 (a host may override attribute access)

    def put(self, module: nn.Module) -> None:
        """Write ``module`` to this place."""
        self.parent._modules[self.name] = module  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Seated:
    """One seat of an attachment.

    Attributes:
        bound: What was bound.
        guard: Admission and counts.
        places: Every place its members occupy.
        above: Modules of the tree that hold one of them somewhere below.
    """

    bound: BoundSeat
    guard: Guard
    places: tuple[Place, ...]
    above: tuple[nn.Module, ...]

    def put_seats(self) -> None:
        """Put the seat's modules at its places."""
        for place in self.places:
            place.put(place.seat)

    def put_hosts(self) -> None:
        """Put the host's own modules back; what somebody else put at a place since then stays."""
        for place in self.places:
            if place.now is place.seat:
                place.put(place.host)

    def lock(self) -> None:
        """Refuse conversions and loads from above this seat."""
        for module in self.above:
            lock(module, {place.seat for place in self.places})

    def leave(self) -> None:
        """Put the host's own modules back and allow conversions and loads again."""
        self.put_hosts()
        for module in self.above:
            unlock(module, {place.seat for place in self.places})


class Attachment:
    """Seats attached together. Ends by :meth:`detach`, or as a context manager.

    Attributes:
        model: The host.
        ledger: Counters of every seat.
    """

    def __init__(self, model: nn.Module, seated: tuple[Seated, ...], undo: ExitStack) -> None:
        self.model = model
        self.ledger = Ledger(one.guard.counts for one in seated)
        self._seated = seated
        self._undo = undo
        self._attached = True
        self._enabled = True
        self._freed: Freed | None = None

    @property
    def active(self) -> bool:
        """True until :meth:`detach`."""
        return self._attached

    @property
    def seated(self) -> tuple[Seated, ...]:
        """The seats, in the order they were given."""
        return self._seated

    def enable(self) -> None:
        """Put the seats in after :meth:`disable`. Costs one dictionary write per place.

        Raises:
            SwapRefused: the attachment was detached.
        """
        if not self._attached:
            raise SwapRefused("the attachment was detached and cannot be enabled", hint="attach again")
        for one in self._seated:
            if not one.guard.counts.restored:
                one.put_seats()
        self._enabled = True

    def disable(self) -> None:
        """Put the host's own modules back, keeping everything bound, until :meth:`enable`.

        Raises:
            SwapRefused: the originals were freed.
        """
        if self._freed is not None:
            raise SwapRefused(
                "the originals were freed: the host cannot run alone", hint="detach, if they were spilled"
            )
        for one in self._seated:
            one.put_hosts()
        self._enabled = False

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Run the host alone while the block runs."""
        was = self._enabled
        self.disable()
        try:
            yield
        finally:
            if was and self._attached:
                self.enable()

    def unsound(self) -> dict[str, tuple[str, ...]]:
        """Return seat id to the names of host tensors that changed since the impl packed them."""
        moved = {one.bound.facts.id: tuple(held.name for held in one.guard.held if held.moved) for one in self._seated}
        return {seat: names for seat, names in moved.items() if names}

    def finalize(self, spill: str | Path | None = None) -> int:
        """Free the originals; from then on a call that the impl cannot answer raises ``GuardRefused``.

        Args:
            spill: Directory to write them to first, so that :meth:`detach` stays possible; without one it is not.

        Returns:
            Bytes freed. Tensors that the model uses elsewhere stay; a second call frees nothing.

        Raises:
            SwapRefused: detached, switched off, given back, or a packed tensor changed; nothing was freed.
            StorageFault: the spill cannot be written; nothing was freed.
        """
        if self._freed is not None:
            return 0
        if not (self._attached and self._enabled):
            raise SwapRefused("only seats that are attached and enabled can be finalized", hint="attach again")
        lost = sorted({*self.unsound(), *self.ledger.because()})
        if lost:
            raise SwapRefused(f"{', '.join(lost)}: the host still needs its originals", hint="detach and attach again")
        hosts = [host for one in self._seated for host in one.guard.hosts]
        self._freed = free(self.model, hosts, spill)
        for one in self._seated:
            one.guard.final = True
        return self._freed.size

    def detach(self) -> None:
        """Put the host back exactly. A second call does nothing.

        Raises:
            SwapRefused: something else sits at a place now, or the originals were freed and not spilled; nothing was
                changed.
        """
        if not self._attached:
            return
        foreign = [
            place.path for one in self._seated for place in one.places if place.now not in (place.seat, place.host)
        ]
        if foreign:
            raise SwapRefused(
                f"{', '.join(foreign)}: another module was put where this attachment's seat was",
                hint="put back what was there, then detach",
            )
        if self._freed is not None:
            self._freed.bring_back()
        self._attached = self._enabled = False
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()
