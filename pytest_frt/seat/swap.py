"""The transaction: bound seats enter a model all together or not at all, and leave it bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch
from torch import nn

from pytest_frt.contracts.seat import RoutedSeat
from pytest_frt.errors import SwapRefused
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.guard import Form, Guard, Held
from pytest_frt.seat.ledger import Counts, Ledger
from pytest_frt.seat.lock import lock, unlock
from pytest_frt.seat.module import AnsweringSeat, SeatModule
from pytest_frt.seat.pair import ConsumingSeat, Exchange

Occurrences = dict[int, list[tuple[nn.Module, str, str]]]


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
        """Put the host's own modules back, keeping everything bound, until :meth:`enable`."""
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

    def detach(self) -> None:
        """Put the host back exactly. A second call does nothing.

        Raises:
            SwapRefused: something else sits at a place now; nothing was changed.
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
        self._attached = self._enabled = False
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()


def attach(model: nn.Module, bound: Sequence[BoundSeat], *, strict: bool = False) -> Attachment:
    """Seat every bound seat, or none.

    Args:
        model: The host, in evaluation mode.
        bound: What to seat.
        strict: Raise ``GuardRefused`` on a call outside the certified form instead of running the host.
            Rows outside the band are declared dispatch and run the host in either mode.

    Returns:
        The attachment.

    Raises:
        SwapRefused: nothing to seat, a place does not exist, overlaps another seat (both are named), is in training
            mode, was compiled in place or has no tensor to bind to. The model is as it was.
    """
    if not bound:
        raise SwapRefused("there is nothing to attach: no seat was bound", hint="see the refusals of binding")
    hosts = _resolve(model, bound)
    where = _occurrences(model)
    seated = tuple(_prepare(model, seat, hosts, where, strict=strict) for seat in bound)
    with ExitStack() as undo:
        for one in seated:
            undo.callback(one.leave)
            one.lock()
            one.put_seats()
        return Attachment(model, seated, undo.pop_all())


def _resolve(model: nn.Module, bound: Iterable[BoundSeat]) -> dict[str, nn.Module]:
    """Return every place's host module by path, after all checks and before any write."""
    owners: dict[int, str] = {}
    hosts: dict[str, nn.Module] = {}
    for seat in bound:
        if isinstance(seat.facts.seat, RoutedSeat):
            raise SwapRefused(f"seat {seat.facts.id} is reached through a function: only modules can be seated")
        for path in seat.facts.seat.places:
            host = _host_at(model, path, seat.facts.id)
            hosts[path] = host
            if id(host) in owners:
                raise SwapRefused(
                    f"seats {owners[id(host)]} and {seat.facts.id} overlap: both replace the module {path}"
                )
            owners[id(host)] = seat.facts.id
    for path, host in hosts.items():
        for inner in host.modules():
            if inner is not host and id(inner) in owners:
                raise SwapRefused(f"seats {owners[id(host)]} and {owners[id(inner)]} overlap: one lies inside {path}")
    return hosts


def _host_at(model: nn.Module, path: str, seat: str) -> nn.Module:
    module = model
    if not path:
        raise SwapRefused(f"seat {seat} is the model itself: a module inside it is needed")
    for name in path.split("."):
        child = module._modules.get(name)  # noqa: SLF001
        if child is None:
            raise SwapRefused(f"seat {seat}: the model has no module {path!r}", hint="it was certified on another host")
        module = child
        if isinstance(module, SeatModule):
            raise SwapRefused(f"seats {module.frt_seat} and {seat} overlap at {path}", hint="detach the first one")
    for inner in module.modules():
        if isinstance(inner, SeatModule):
            raise SwapRefused(f"seats {inner.frt_seat} and {seat} overlap: the first lies inside {path}")
    if module.training:
        raise SwapRefused(f"seat {seat}: {path} is in training mode", hint="call model.eval() first")
    if module._compiled_call_impl is not None:  # noqa: SLF001 (set by Module.compile)
        raise SwapRefused(f"seat {seat}: {path} was compiled in place", hint="attach first, then compile the model")
    return module


def _prepare(
    model: nn.Module, bound: BoundSeat, hosts: Mapping[str, nn.Module], where: Occurrences, *, strict: bool
) -> Seated:
    facts = bound.facts
    members = tuple(hosts[path] for path in facts.seat.places)
    held = tuple(Held.of(model, slot.tensor) for slot in facts.slots.values())
    if not held:
        raise SwapRefused(f"seat {facts.id} names no host tensor", hint="discover its seats again")
    device = held[0].tensor.device
    form = Form(dtype_named(facts.dtype), bound.width, device, bound.rows)
    guard = Guard(form, Counts(facts.id, device), strict, members, held)
    places = [
        Place(parent, name, path, host, seat)
        for host, seat in zip(members, _modules(bound, guard, members), strict=True)
        for parent, name, path in where[id(host)]
    ]
    holders = {id(place.parent) for place in places}
    above = tuple(module for module in model.modules() if any(id(inner) in holders for inner in module.modules()))
    seated = Seated(bound, guard, tuple(places), above)
    guard.give_back = seated.leave
    return seated


def _modules(bound: BoundSeat, guard: Guard, hosts: tuple[nn.Module, ...]) -> tuple[SeatModule, ...]:
    """Return what stands in for each host module, producer first."""
    run = bound.module.forward
    if len(hosts) == 1:
        return (AnsweringSeat(hosts[0], guard, run),)
    exchange = Exchange(run, bound.facts.seat.places, fanout=len(bound.outputs) > 1)
    producer = AnsweringSeat(hosts[0], guard, exchange.produce, exchange.clear)
    consumers = (ConsumingSeat(host, guard, exchange, index) for index, host in enumerate(hosts[1:], start=1))
    return (producer, *consumers)


def _occurrences(model: nn.Module) -> Occurrences:
    """Return, by id of a module, parent, name and path of every place that holds it: a tied module has several."""
    places: Occurrences = {}
    for path, parent in model.named_modules():
        for name, child in parent._modules.items():  # noqa: SLF001
            if child is not None:
                places.setdefault(id(child), []).append((parent, name, f"{path}.{name}" if path else name))
    return places


def dtype_named(name: str) -> torch.dtype:
    """Return the torch dtype called ``name``, e.g. ``float32``.

    Raises:
        SwapRefused: torch has no such dtype.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SwapRefused(f"{name!r} is no dtype of torch", hint="it was certified with another version of torch")
    return dtype
