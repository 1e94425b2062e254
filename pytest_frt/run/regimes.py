"""In which sizes, forms, row regimes and cache states a cell is judged."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.errors import UsageFault

if TYPE_CHECKING:
    from pytest_frt.contracts.host import HostSpec, PhaseSpec
    from pytest_frt.run.config import RunConfig


def default_size(spec: HostSpec, kind: str) -> str:
    """Return ``real`` where trained weights are at hand, else ``full`` on an accelerator, else ``tiny``.

    Args:
        spec: The host.
        kind: Kind of the device that it runs on.
    """
    if spec.weights.get("real") == "trained":
        return "real"
    return "full" if kind != "cpu" and "full" in spec.sizes else "tiny"


def size_of(config: RunConfig, spec: HostSpec, kind: str) -> str:
    """Return the size that a host is built in.

    Raises:
        UsageFault: the host lacks the size that was asked for.
    """
    size = config.size or default_size(spec, kind)
    if size not in spec.sizes:
        raise UsageFault(
            f"host {spec.name} has no size {size!r}; it has {', '.join(spec.sizes)}", hint=f"--frt-size={spec.sizes[0]}"
        )
    return size


def phases_of(config: RunConfig, spec: HostSpec, rows: tuple[int, int], size: str) -> list[PhaseSpec]:
    """Return the selected row regimes of a host that an impl's row band admits.

    Tiny hosts run their regimes at fewer rows: there every one is admitted.
    """
    kept = [phase for phase in spec.phases if selected(config, "phase", phase.name)]
    return [phase for phase in kept if size == "tiny" or rows[0] <= phase.timed_rows <= rows[1]]


def keys_of(
    config: RunConfig, spec: HostSpec, cell: Cell, rows: tuple[int, int], size: str
) -> list[tuple[RecordKey, PhaseSpec]]:
    """Return the record keys of a cell with their regimes, by form, regime and cache state."""
    return [
        (RecordKey(cell, form, phase.name, size, cache), phase)
        for form in config.forms
        if form in spec.forms
        for phase in phases_of(config, spec, rows, size)
        for cache in config.cache_states
    ]


def selected(config: RunConfig, dimension: str, name: str) -> bool:
    """Return whether the globs that a selection has in a dimension, such as ``record``, keep a name."""
    keep, drop = (side.get(dimension, ()) for side in (config.selection.include, config.selection.exclude))
    return (not keep or matches(name, keep)) and not matches(name, drop)


def matches(name: str, globs: tuple[str, ...]) -> bool:
    """Return whether any glob matches a name."""
    return any(fnmatchcase(name, glob) for glob in globs)
