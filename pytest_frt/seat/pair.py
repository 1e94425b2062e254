"""Pairs: one producer computes for all members; a consumer hands its part on only for the very tensor it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, NoReturn
from weakref import ReferenceType, ref

from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling

from pytest_frt.contracts.structure import Join
from pytest_frt.errors import GuardRefused
from pytest_frt.seat.guard import Guard, input_names, inputs_of, version_of
from pytest_frt.seat.ledger import Admission
from pytest_frt.seat.module import SeatModule

TRACING = -1
"""Key of the ticket inside a compiled region, where one trace is one thread."""


@dataclass(slots=True)
class Ticket:
    """What a producer computed in one call and has not handed on yet.

    Attributes:
        x: What consumers must be given: the producer's input, or what it returned where that is relayed. Kept, so that
            its storage cannot be taken by another tensor.
        version: Its in-place version when it was read or made.
        outputs: Output per place; None once handed on. A chain has one, its result.
        result_version: In-place version of a chain's result.
    """

    x: Tensor
    version: int
    outputs: list[Tensor | None]
    result_version: int


@dataclass(slots=True)
class Exchange:
    """Where the members of one pair meet. Tickets are kept per thread, so that threads cannot take each other's.

    Attributes:
        impl: The impl's forward: the producer's inputs to one tensor (chain) or one per place (fanout).
        places: Places of the seat, producer first.
        join: How they belong together.
        tickets: Thread to its pending ticket.
        unserved: Threads whose producer ran in the host last: its consumers do so too.
        handed: Thread to the chain result that was handed on last.
    """

    impl: Callable[..., Any]
    places: tuple[str, ...]
    join: Join
    tickets: dict[int, Ticket] = field(default_factory=dict)
    unserved: set[int] = field(default_factory=set)
    handed: dict[int, ReferenceType[Tensor]] = field(default_factory=dict)

    def produce(self, x: Tensor, *sides: Tensor) -> Tensor:
        """Run the impl and return the producer's own output; keep the others, or the chain's result, for the consumers.

        Raises:
            GuardRefused: the impl did not return one tensor per place, or one for a chain.
        """
        answer = self.impl(x, *sides)
        outputs: list[Tensor | None] = list(answer) if isinstance(answer, tuple) else [answer]
        first, wanted = outputs[0], 1 if self.join is Join.CHAIN else len(self.places)
        if first is None or len(outputs) != wanted:
            raise GuardRefused(
                f"the impl at {self.places[0]} returned {len(outputs)} tensors, the seat takes {wanted}",
                hint="return one tensor for a chain, a tuple with one per place for a fanout",
            )
        if self.join is not Join.CHAIN:
            outputs[0] = None
        given = first if self.join is Join.RELAY else x
        self.tickets[_thread()] = Ticket(given, _version(given), outputs, _version(first))
        self.unserved.discard(_thread())
        return first

    def clear(self) -> None:
        """Forget the pending ticket: the host produces this time."""
        self.tickets.pop(_thread(), None)
        self.unserved.add(_thread())

    def pending(self) -> Ticket | None:
        """Return this thread's ticket."""
        return self.tickets.get(_thread())

    def take(self, ticket: Ticket, index: int) -> Tensor | None:
        """Hand one output on, once: a second call gets None. The last one closes the ticket."""
        output, ticket.outputs[index] = ticket.outputs[index], None
        if all(one is None for one in ticket.outputs):
            self.tickets.pop(_thread(), None)
        return output

    def owes(self, x: Tensor, guard: Guard) -> bool:
        """Report whether a call of a consumer that finds no ticket is one that the impl should have answered.

        Where consumers read the producer's own input, that input says so. What is relayed does not say whether it was
        made in the host: the producer's last call does.
        """
        if self.join is Join.RELAY:
            return _thread() not in self.unserved
        return guard.examine(x) is Admission.SERVED


class ConsumingSeat(SeatModule):
    """A consumer: hands the producer's output on, or runs its host module.

    In a fanout it takes the producer's own input, or what the producer returned where that is relayed, and returns its
    own output. In a chain it takes the producer's result (and, with a residual, the producer's input) and returns that
    result by identity.

    Args:
        host: The module it stands in for.
        guard: Admission and counts of the seat.
        exchange: Where the members meet.
        index: Its position among the places, from 1.
    """

    def __init__(self, host: nn.Module, guard: Guard, exchange: Exchange, index: int) -> None:
        super().__init__(host, guard)
        own = self.__dict__
        own["_frt_names"] = input_names(host, 1)
        own["_frt_exchange"] = exchange
        own["_frt_index"] = index

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (a module takes what its host takes)
        """Return this place's output of the producer's call, or run the host exactly."""
        exchange: Exchange = self._frt_exchange
        ticket = exchange.pending()
        if ticket is None:
            return self._without_ticket(args, kwargs)
        if exchange.join is Join.CHAIN:
            return self._chain(ticket, args, kwargs)
        (x,) = inputs_of(args, kwargs, self._frt_names)
        if isinstance(x, Tensor) and _same(x, ticket.x, ticket.version):
            output = exchange.take(ticket, self._frt_index)
            if output is not None:
                return output
        self._miss(x)
        return self._frt_run_host(args, kwargs)

    def _without_ticket(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        exchange: Exchange = self._frt_exchange
        if exchange.join is not Join.CHAIN and given and exchange.owes(given[0], self._frt_guard):
            # The producer ran on something else, or not at all: it has not counted this call.
            self._miss(given[0])
        elif not is_dynamo_compiling():
            last = exchange.handed.get(get_ident())
            if last is not None and any(value is last() for value in given):
                self._refuse_mix("a result that was handed on before")
        return self._frt_run_host(args, kwargs)

    def _chain(self, ticket: Ticket, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
        exchange: Exchange = self._frt_exchange
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        result = ticket.outputs[0]
        if result is None or not given or not _same(given[0], result, ticket.result_version):
            self._refuse_mix("another tensor than the producer's result")
        if any(not _same(other, ticket.x, ticket.version) for other in given[1:]):
            self._refuse_mix("another residual than the producer's input")
        if not is_dynamo_compiling():
            exchange.handed[get_ident()] = ref(result)
        exchange.take(ticket, 0)
        return result

    def _miss(self, x: object) -> None:
        guard: Guard = self._frt_guard
        if is_dynamo_compiling():
            guard.traced(Admission.INPUT, x)
        else:
            guard.missed(Admission.INPUT, x)

    def _refuse_mix(self, what: str) -> NoReturn:
        place = self._frt_exchange.places[self._frt_index]
        raise GuardRefused(
            f"{place} was given {what}: half of seat {self.frt_seat} ran in the impl and half would run here",
            hint="detach this seat; the host does more between its modules than it did when certified",
        )


def _thread() -> int:
    return TRACING if is_dynamo_compiling() else get_ident()


def _version(x: Tensor) -> int:
    return 0 if is_dynamo_compiling() else version_of(x)


def _same(x: Tensor, kept: Tensor, version: int) -> bool:
    """Return whether ``x`` is the kept tensor, or another view of exactly its elements, not written to since.

    A compiled region has no version counter; there the tensor itself must come back. Inference tensors have none
    either: an in-place write between two members of a pair shows in the parity gate of that form only.
    """
    if is_dynamo_compiling():
        return x is kept
    if x is not kept and (
        x.data_ptr() != kept.data_ptr()
        or x.shape != kept.shape
        or x.stride() != kept.stride()
        or x.dtype is not kept.dtype
        or x.device != kept.device
    ):
        return False
    return version_of(x) == version
