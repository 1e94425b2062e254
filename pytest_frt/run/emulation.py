"""A CPU in the place of a device that is not there: what is then judged, and what a run on the device itself would do.

An emulated record has the codes and the rounding points of its scheme and says nothing else of the device. It is never
timed, stated or kept from an earlier run, and it is no member of a union.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pytest_frt.run.regimes import keys_of, selected, size_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_frt.cell import Cell, RecordKey
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig

KIND: Final = "cpu"
"""Kind of the machine that stands in."""
LABEL: Final = f"emulated on {KIND}"
NOT_SHOWN: Final = ("accumulation order and precision of its tensor cores", "its streams and graphs", "its speed")
"""What an emulation leaves unsaid of a device."""
NEEDS_DEVICE: Final = frozenset({"captured"})
"""Forms that have no numerics of their own to show without the device."""


def label(device: str) -> str:
    """Return how a report marks an emulated record."""
    return f"{LABEL} in the place of {device}; not shown: {', '.join(NOT_SHOWN)}"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One record that a run on an absent device would judge.

    Whether a build of the kernel serves that device, only a machine that has one can tell.

    Attributes:
        key: Its record key there; the size is the one that the device would run.
        kernel: Repo id of the kernel that its impl runs over.
        emulated: Its numerics are judged here, by a CPU.
    """

    key: RecordKey
    kernel: str
    emulated: bool


def elsewhere(
    config: RunConfig, registry: Registry, cell: Cell, emulated: Collection[RecordKey] = ()
) -> list[Elsewhere]:
    """Return what a run on the absent device of a cell would judge of it.

    Args:
        config: The run's settings.
        registry: What is installed.
        cell: The cell.
        emulated: Keys of it that are judged here.
    """
    impl, spec = registry.impl(cell.structure, cell.impl).impl, registry.host(cell.host).spec
    size = size_of(config, spec, registry.device(cell.device).spec.kind)
    here = {replace(key, size=size) for key in emulated}
    found = (key for key, _ in keys_of(config, spec, cell, impl.rows[cell.scheme], size))
    return [Elsewhere(key, impl.kernel, key in here) for key in found if selected(config, "record", key.id)]
