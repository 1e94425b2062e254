"""How a host really calls its seats: counts, rows, dtypes, order, and whether siblings read one storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import NotReplaced, SeatFacts
from pytest_frt.contracts.structure import Join, Structure
from pytest_frt.seat.guard import rows_of
from pytest_frt.seat.hooks import Before, watching
from pytest_frt.seat.tree import dtype_name, under


@dataclass(frozen=True, slots=True)
class Observation:
    """What one seat was called with while the host ran.

    Attributes:
        seat: Seat id.
        structure: Its structure.
        calls: Complete calls; of a pair, rounds in which every place was called once.
        rows: Rows of each call, in order.
        dtypes: Distinct input dtypes, sorted.
        keyword: True when the input came by keyword at least once.
        order: Places of a pair in the order they are called; empty for other seats.
        fault: Why the seat cannot be served as it is called; empty when it can.
    """

    seat: str
    structure: str
    calls: int
    rows: tuple[int, ...]
    dtypes: tuple[str, ...]
    keyword: bool
    order: tuple[str, ...]
    fault: str


def _version(x: Tensor) -> int:
    """Return the count of in-place writes; tensors made in inference mode do not keep one."""
    return -1 if x.is_inference() else x._version  # noqa: SLF001 (the only sign of an in-place write)


def _same(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are one and the same view of one storage."""
    views = [(x.data_ptr(), x.shape, x.stride(), x.dtype, x.device) for x in (a, b)]
    return views[0] == views[1]


def _related(path: str, place: str) -> bool:
    """Return whether one of two modules is the other, or lies in it."""
    return under(path, place) or under(place, path)


@dataclass
class _Watch:
    """Running facts of one seat.

    Attributes:
        facts: The seat.
        join: How the places of a pair belong together.
        inputs: Inputs of the structure; those after the first must have one row.
        order: Places in the order of the first complete round.
        called: Places called in the running round.
        given: Input of the producer in the running round. It is held, so that no tensor made later takes its storage.
        made: Output of the producer in the running round.
        handed: Output of the producer in the round before, which the consumer has read.
        version: In-place writes of what consumers must not find changed: of ``given`` when the producer read it, of
            ``made`` where that is relayed.
    """

    facts: SeatFacts
    join: Join
    inputs: int = 1
    calls: int = 0
    rows: list[int] = field(default_factory=list)
    dtypes: set[str] = field(default_factory=set)
    keyword: bool = False
    faults: dict[str, None] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    called: list[str] = field(default_factory=list)
    given: Tensor | None = None
    made: object = None
    handed: object = None
    version: int = 0

    def first(self, tensors: tuple[Tensor, ...], keyword: bool) -> None:  # noqa: FBT001 (a watcher)
        """Take in a call of the first place."""
        self.end_round()
        if not tensors:
            self.faults.setdefault("it is called without a tensor")
            return
        x = tensors[0]
        self.rows.append(rows_of(x))
        self.dtypes.add(dtype_name(x.dtype))
        self.keyword |= keyword
        if self.inputs > 1 and [side.shape[:-1].numel() for side in tensors[1:]] != [1] * (self.inputs - 1):
            shapes = [tuple(side.shape) for side in tensors[1:]]
            self.faults.setdefault(f"beside x it is given tensors of {shapes}, needs {self.inputs - 1} of one row")
        self.dtypes |= {dtype_name(side.dtype) for side in tensors[1 : self.inputs]}
        self.given, self.made, self.handed, self.version = x, None, None, _version(x)
        self.called = [self.facts.seat.places[0]]
        self._complete()

    def returned(self, output: object) -> None:
        """Take in what the first place returned."""
        self.made = output
        if self.join is Join.RELAY and isinstance(output, Tensor):
            self.version = _version(output)

    def later(self, place: str, tensors: tuple[Tensor, ...], _keyword: bool) -> None:  # noqa: FBT001 (a watcher)
        """Take in a call of a later place of a pair."""
        producer = self.facts.seat.places[0]
        if self.given is None:
            self.faults.setdefault(f"{place} is called without {producer} before it")
            return
        if not tensors:
            self.faults.setdefault(f"{place} is called without a tensor")
            return
        own = self.join is Join.FANOUT
        expected = self.given if own else self.made
        if not isinstance(expected, Tensor) or not _same(tensors[0], expected):
            what = "another tensor than" if own else "something else than the output of"
            self.faults.setdefault(f"{place} reads {what} {producer}")
        elif not all(_same(other, self.given) for other in tensors[1:]):
            self.faults.setdefault(f"{place} is given a tensor that is not the input of {producer}")
        elif _version(expected if self.join is Join.RELAY else self.given) != self.version:
            what = "output" if self.join is Join.RELAY else "input"
            self.faults.setdefault(f"the {what} is written to between {producer} and {place}")
        self.called.append(place)
        self._complete()

    def _complete(self) -> None:
        if len(self.called) < len(self.facts.seat.places):
            return
        self.order = self.order or tuple(self.called)
        if tuple(self.called) != self.order:
            self.faults.setdefault(f"the places are called as {self.order} and as {tuple(self.called)}")
        self.calls += 1
        self.called, self.given, self.made, self.handed = [], None, None, self.made

    def read(self, place: str, tensors: tuple[Tensor, ...], _keyword: bool) -> None:  # noqa: FBT001 (a watcher)
        """Take in a call of a module that is no place of this chain: the producer's output is not for it."""
        for made in (self.made, self.handed):
            if isinstance(made, Tensor) and any(_same(tensor, made) for tensor in tensors):
                producer = self.facts.seat.places[0]
                self.faults.setdefault(f"{place} reads the output of {producer} as well")

    def end_round(self) -> None:
        """Note a round that some place did not take part in."""
        if self.called:
            missing = [place for place in self.facts.seat.places if place not in self.called]
            self.faults.setdefault(f"{', '.join(missing)} is not called after {self.called[0]}")
        self.called, self.given, self.made = [], None, None

    def observation(self) -> Observation:
        """Close the books."""
        self.end_round()
        if not self.calls and not self.faults:
            self.faults.setdefault("it is never called as a module")
        if others := sorted(self.dtypes - {self.facts.dtype}):
            self.faults.setdefault(f"it is called with {', '.join(others)}, its weights are {self.facts.dtype}")
        pair = len(self.facts.seat.places) > 1
        return Observation(
            seat=self.facts.id,
            structure=self.facts.structure,
            calls=self.calls,
            rows=tuple(self.rows),
            dtypes=tuple(sorted(self.dtypes)),
            keyword=self.keyword,
            order=self.order if pair else (),
            fault="; ".join(self.faults),
        )


def observe(
    model: nn.Module, run: Callable[[], object], seats: Sequence[SeatFacts], structures: Sequence[Structure]
) -> tuple[Observation, ...]:
    """Run the untouched host and note how it calls every seat. Hooks are removed on every way out.

    Args:
        model: The host.
        run: One run of what it is deployed for.
        seats: Seats to watch.
        structures: Their structures.

    Returns:
        One observation per seat, in the order of ``seats``.
    """
    by_name = {structure.name: structure for structure in structures}
    watches = [
        _Watch(seat, of.join(seat.variant), len(of.inputs)) for seat in seats for of in [by_name[seat.structure]]
    ]
    before: list[tuple[str, Before]] = []
    for watch in watches:
        producer, *others = watch.facts.seat.places
        before.append((producer, watch.first))
        before += [(place, partial(watch.later, place)) for place in others]
    pairs = [watch for watch in watches if len(watch.facts.seat.places) > 1]
    chains = [watch for watch in pairs if watch.join is Join.CHAIN]
    for watch in chains:
        places = watch.facts.seat.places
        around = [path for path, _ in model.named_modules() if not any(_related(path, place) for place in places)]
        before += [(path, partial(watch.read, path)) for path in around]
    after = [(watch.facts.seat.places[0], watch.returned) for watch in pairs if watch.join is not Join.FANOUT]
    with torch.no_grad(), watching(model, before, after):
        run()
    return tuple(watch.observation() for watch in watches)


def split(
    seats: Sequence[SeatFacts], observations: Sequence[Observation]
) -> tuple[tuple[SeatFacts, ...], tuple[NotReplaced, ...]]:
    """Keep the seats that can be served as the host calls them; the others come with their reason.

    Args:
        seats: Seats found.
        observations: What :func:`observe` returned for them.
    """
    faults = {(seen.structure, seen.seat): seen.fault for seen in observations}
    kept = tuple(seat for seat in seats if not faults[seat.structure, seat.id])
    gone = (seat for seat in seats if faults[seat.structure, seat.id])
    return kept, tuple(NotReplaced(seat.id, seat.structure, faults[seat.structure, seat.id]) for seat in gone)
