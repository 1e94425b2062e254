"""What lies at and below the places of a seat, and what is odd about it; nothing of the host is executed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from torch import Tensor, nn

from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.runtime.match import Inner, Odd
from pytest_frt.seat import tree
from pytest_frt.seat.genuine import why_not_its_source, why_not_itself
from pytest_frt.seat.hostfacts import class_label, library_of, source_file
from pytest_frt.spec.digest import file_digest


class Below:
    """The modules of seats of one model; each class is examined once.

    Args:
        model: The unattached model.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._known: dict[type[nn.Module], tuple[str, str]] = {}

    def odd(self, facts: SeatFacts) -> Iterator[Odd]:
        """Yield what discovery would not have taken for a seam, in the order of the module tree."""
        slots = sorted({slot.tensor for slot in facts.slots.values()})
        for name in slots:
            if self.stored(name) is None:
                path, _, own = name.rpartition(".")
                yield Odd("WEIGHTS_FORM", path, f"its {own} is computed when it is asked for, not a tensor it holds")
        for path, module in self._modules(facts):
            if why := self._class(type(module))[0]:
                yield Odd("HOST", path, why)
            if why := why_not_itself(module):
                yield Odd("SEAT", path, why)
            if not module.training and tree.drops_out(module):
                yield Odd("SEAT", path, "a dropout below it is in training mode")
        held = {id(self.stored(name)) for name in slots}
        for name, tensor in tree.tensors_under(self._model, facts.seat.places).items():
            if id(tensor) not in held:
                path, _, own = name.rpartition(".")
                yield Odd("SEAT", path, f"its {own} is in no slot of the certified seat")

    def inner(self, facts: SeatFacts) -> Iterator[Inner]:
        """Yield the modules below the places."""
        for path, module in self._modules(facts):
            if path not in facts.seat.places:
                yield Inner(path, class_label(module), tuple(library_of(module)), self._class(type(module))[1])

    def stored(self, name: str) -> Tensor | None:
        """Return a parameter or buffer by dotted name as its module holds it; None where there is none."""
        owner, own = self._owner(name)
        return None if owner is None else tree.own_tensor(owner, own)

    def computes(self, name: str) -> bool:
        """Return whether a module has something else than a parameter or buffer by a dotted name; it is not asked."""
        owner, own = self._owner(name)
        return owner is not None and inspect.getattr_static(owner, own, None) is not None

    def _class(self, kind: type[nn.Module]) -> tuple[str, str]:
        """Return why a class is not its source's, and the digest of that source."""
        if kind not in self._known:
            path = source_file(kind)
            self._known[kind] = why_not_its_source(kind), "" if path is None else file_digest(path)
        return self._known[kind]

    def _owner(self, name: str) -> tuple[nn.Module | None, str]:
        parent, _, own = name.rpartition(".")
        try:
            return self._model.get_submodule(parent), own
        except AttributeError:
            return None, own

    def _modules(self, facts: SeatFacts) -> Iterator[tuple[str, nn.Module]]:
        for place in facts.seat.places:
            for path, module in self._model.get_submodule(place).named_modules():
                yield tree.join(place, path), module
