"""Whether an impl reads anything of the kernel it names: a win that a kernel had no part in is not that kernel's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.contracts.verdict import Refusal

if TYPE_CHECKING:
    from pytest_frt.lab.units import BoundUnit, LoadedUnit

REASON: Final = "kernel_unused"
_READ: Final[dict[int, set[str]]] = {}


class _Watched(ModuleType):
    """A module whose public names are noted when they are read."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 (whatever the module holds)
        if not name.startswith("_"):
            _READ[id(self)].add(name)
        return super().__getattribute__(name)


class KernelUse:
    """Watches kernels from before their impls bind until the seams were run."""

    def __init__(self) -> None:
        self._watched: list[ModuleType] = []

    def watch(self, unit: LoadedUnit) -> LoadedUnit:
        """Note from now on what is read of a unit's kernel; a module of a class of its own is left as it is."""
        if type(unit.kernel) is ModuleType:
            _READ[id(unit.kernel)] = set()
            unit.kernel.__class__ = _Watched
            self._watched.append(unit.kernel)
        return unit

    def judged(self, units: Iterable[BoundUnit]) -> list[BoundUnit]:
        """Stop watching, and refuse the seats of units that read nothing of their kernel."""
        unused = {id(kernel) for kernel in self._watched if not _READ.pop(id(kernel), None)}
        for kernel in self._watched:
            kernel.__class__ = ModuleType
        return [_refused(unit) if id(unit.loaded.kernel) in unused else unit for unit in units]


def _refused(unit: BoundUnit) -> BoundUnit:
    named, impl = unit.loaded.ref.kernel_repo, unit.loaded.ref.impl
    detail = f"{impl} names {named} and read nothing of it: name the kernel that computes"
    refused = (Refusal("bind", REASON, detail, at=seat.facts.id) for seat in unit.bound)
    return replace(unit, bound=(), refused=(*unit.refused, *refused))
