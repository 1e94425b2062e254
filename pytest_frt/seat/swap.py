"""The transaction: bound seats enter a model all together or not at all, and leave it bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

import torch
from torch import nn

from pytest_frt.contracts.seat import RoutedSeat
from pytest_frt.errors import SwapRefused
from pytest_frt.seat.attachment import Attachment, Place, Seated
from pytest_frt.seat.bind import BoundSeat
from pytest_frt.seat.guard import Form, Guard, Held
from pytest_frt.seat.ledger import Counts
from pytest_frt.seat.module import AnsweringSeat, SeatModule
from pytest_frt.seat.pair import ConsumingSeat, Exchange

__all__ = ["Attachment", "Seated", "attach", "dtype_named"]

Occurrences = dict[int, list[tuple[nn.Module, str, str]]]


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
    form = Form(dtype_named(facts.dtype), bound.width, device, bound.rows, bound.sides, bound.axes)
    guard = Guard(form, Counts(facts.id, device), strict, members, held)
    places = [
        Place(parent, name, path, host, seat)
        for host, seat in zip(members, _modules(bound, guard, members), strict=True)
        for parent, name, path in where[id(host)]
    ]
    seated = Seated(bound, guard, tuple(places), _above(places, where))
    guard.give_back = seated.leave
    return seated


def _above(places: Iterable[Place], where: Occurrences) -> tuple[nn.Module, ...]:
    """Return every module that holds one of the places somewhere below, each once."""
    found: dict[int, nn.Module] = {}
    climb = [place.parent for place in places]
    while climb:
        module = climb.pop()
        if id(module) not in found:
            found[id(module)] = module
            climb += [parent for parent, _, _ in where.get(id(module), ())]
    return tuple(found.values())


def _modules(bound: BoundSeat, guard: Guard, hosts: tuple[nn.Module, ...]) -> tuple[SeatModule, ...]:
    """Return what stands in for each host module, producer first."""
    run = bound.module.forward
    if len(hosts) == 1:
        return (AnsweringSeat(hosts[0], guard, run),)
    exchange = Exchange(run, bound.facts.seat.places, bound.join)
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
