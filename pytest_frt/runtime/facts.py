"""What the live process is: read from the model and the installed distributions, running no code of either."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import TypeVar

from torch import nn
from torch.nn.parameter import is_lazy

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.record import Record
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.devices.probe import present_facts
from pytest_frt.errors import SwapRefused, UsageFault
from pytest_frt.runtime.below import Below
from pytest_frt.runtime.match import LiveFacts, LiveSeat
from pytest_frt.seat.hostfacts import class_label, library_of, source_digest
from pytest_frt.seat.module import SeatModule
from pytest_frt.seat.tree import dtype_name
from pytest_frt.seat.weights import WeightHasher

V = TypeVar("V")


class Asked(Mapping[str, V]):
    """A mapping that computes each value once, when it is asked for. Iterates over what was asked so far.

    Args:
        compute: Returns the value of a key, or None when there is none.
    """

    def __init__(self, compute: Callable[[str], V | None]) -> None:
        self._compute = compute
        self._known: dict[str, V | None] = {}

    def __getitem__(self, key: str) -> V:
        if key not in self._known:
            self._known[key] = self._compute(key)
        value = self._known[key]
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return (key for key, value in self._known.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LiveProcess:
    """The facts of this process and model, each read once.

    Args:
        model: The unattached model.
    """

    def __init__(self, model: nn.Module) -> None:
        classes = {class_label(module): module for module in model.modules()}
        self._model = model
        self._devices = Asked(_device)
        self._software = Asked(_version)
        self._distributions = Asked(_record_digest)
        self._sources = Asked(lambda label: _source(classes.get(label)))
        self._host_class = class_label(model)
        self._library = library_of(model)
        self._weights = WeightHasher()
        self._below = Below(model)

    def facts(self, record: Record) -> LiveFacts:
        """Return what a record is held against; what is expensive is computed when :func:`match` asks."""
        seats = {seat.facts.id: seat.facts for seat in record.seats}
        return LiveFacts(
            device=self._devices[record.device.kind],
            software=self._software,
            distributions=self._distributions,
            host_class=self._host_class,
            library=self._library,
            sources=self._sources,
            seats=Asked(lambda seat: _seat(self._model, self._below, seats[seat]) if seat in seats else None),
            weights=Asked(lambda seat: self._weights.digest(self._model, seats[seat]) if seat in seats else None),
        )


def _device(kind: str) -> DeviceFacts:
    try:
        return present_facts(kind)
    except UsageFault:  # the certified kind of device is absent
        return present_facts("cpu")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _record_digest(distribution: str) -> str | None:
    name, _, version = distribution.rpartition("-")
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    text = found.read_text("RECORD")
    return None if text is None or found.version != version else hashlib.sha256(text.encode()).hexdigest()


def _source(module: nn.Module | None) -> str | None:
    try:
        return None if module is None else source_digest(module)
    except (SwapRefused, OSError):  # a class without a source file, or one that is gone
        return None


def _seat(model: nn.Module, below: Below, facts: SeatFacts) -> LiveSeat:
    missing: list[str] = []
    labels: list[str] = []
    for path in facts.seat.places:
        try:
            module = model.get_submodule(path)
        except AttributeError:
            missing.append(f"module {path}")
            continue
        seated = next((inner for inner in module.modules() if isinstance(inner, SeatModule)), None)
        if seated is not None:
            return LiveSeat((), "", seated=seated.frt_seat)
        labels.append(class_label(module))
    kinds: set[str] = set()
    slots: list[str] = []
    for name, slot in facts.slots.items():
        tensor = below.stored(slot.tensor)
        if tensor is not None and not is_lazy(tensor):
            kinds.add(tensor.device.type)
            slots.append(f"{name} is {slot.tensor}, {dtype_name(tensor.dtype)} {'x'.join(map(str, tensor.shape))}")
        elif tensor is not None or not below.computes(slot.tensor):
            missing.append(f"tensor {slot.tensor}")
    if missing:
        return LiveSeat(tuple(labels), "", tuple(missing))
    device = " and ".join(sorted(kinds))
    return LiveSeat(tuple(labels), device, (), "", tuple(slots), tuple(below.odd(facts)), tuple(below.inner(facts)))
