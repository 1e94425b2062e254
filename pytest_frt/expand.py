"""Selection times registry times device facts: the cells of a run, and the rows that cannot run here, each with why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from itertools import product
from typing import Protocol

from pytest_frt.cell import Cell
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.devices.probe import matches
from pytest_frt.errors import MissingExtra, UsageFault
from pytest_frt.registry import DeviceEntry, HostEntry, ImplEntry, Registry, did_you_mean

EVERY = ("all", "*")
GROUP_OF = {"structure": "catalog", "impl": "impls", "host": "hosts", "scheme": "schemes", "device": "devices"}


class Selection(Protocol):
    """Globs that keep and globs that drop, per dimension of a cell; a missing dimension keeps all."""

    @property
    def include(self) -> Mapping[str, tuple[str, ...]]:
        """``structure``, ``impl``, ``host``, ``scheme`` or ``device`` to globs."""
        ...

    @property
    def exclude(self) -> Mapping[str, tuple[str, ...]]:
        """The same, dropped after."""
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    """A cell to judge.

    Attributes:
        cell: The cell.
        emulated: The device is absent and a CPU shows the scheme's numerics in its place: never timed or certified.
    """

    cell: Cell
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class NotSupported:
    """A cell that was asked for and cannot run here. Reported, never counted as passed.

    Attributes:
        cell: The cell.
        reason: Why, for people.
        absent: Nothing but the absence of its device keeps it from running.
    """

    cell: Cell
    reason: str
    absent: bool = False


def _globs(given: Iterable[str]) -> tuple[str, ...]:
    return tuple("*" if glob in EVERY else glob for glob in given)


class _Chosen:
    """The names a selection keeps in each dimension.

    Args:
        selection: What was asked for.
        registry: What is installed.
    """

    def __init__(self, selection: Selection, registry: Registry) -> None:
        self._selection, self._registry = selection, registry

    def exactly(self, dimension: str, name: str) -> bool:
        """Return whether a name was asked for by itself, not by a glob."""
        return name in self._selection.include.get(dimension, ())

    def names(self, dimension: str, known: Iterable[str]) -> list[str]:
        """Return the known names kept, sorted.

        Raises:
            UsageFault: a glob matches no known name, or nothing is left.
            ProviderBroken: a glob names an entry that could not be read.
        """
        known = sorted(set(known))
        include = _globs(self._selection.include.get(dimension, ("*",)))
        exclude = _globs(self._selection.exclude.get(dimension, ()))
        for option, globs in ((f"--frt-{dimension}", include), (f"--frt-exclude-{dimension}", exclude)):
            for glob in globs:
                self._check(option, dimension, glob, known)
        kept = [name for name in known if any(fnmatchcase(name, glob) for glob in include)]
        left = [name for name in kept if not any(fnmatchcase(name, glob) for glob in exclude)]
        if not left:
            raise UsageFault(f"--frt-exclude-{dimension} leaves no {dimension}: it drops {', '.join(kept)}")
        return left

    def _check(self, option: str, dimension: str, glob: str, known: Sequence[str]) -> None:
        if any(fnmatchcase(name, glob) for name in known):
            return
        for fault in self._registry.broken:
            if fault.group == GROUP_OF[dimension] and fnmatchcase(fault.name.rpartition("/")[2], glob):
                raise fault.error()
        raise UsageFault(f"{option}={glob} matches no {dimension}", hint=did_you_mean(glob, known))


def absence(entry: DeviceEntry, facts: Sequence[DeviceFacts]) -> str:
    """Return why a device is not here, speaking of a device of its kind where there is one; empty when it is."""
    reasons = [(one.kind == entry.spec.kind, matches(entry.spec, one)) for one in facts]
    if any(reason is None for _, reason in reasons):
        return ""
    return next((reason or "" for alike, reason in reasons if alike), reasons[0][1] or "")


def _devices(chosen: _Chosen, selection: Selection, registry: Registry, facts: Sequence[DeviceFacts]) -> list[str]:
    known = list(registry.devices)
    if "device" not in selection.include:
        known = [name for name, entry in registry.devices.items() if not absence(entry, facts)]
        if not known:
            raise UsageFault("no device profile matches this machine", hint=did_you_mean("", registry.devices))
    return chosen.names("device", known)


def _missing(entry: HostEntry) -> tuple[str, str] | None:
    """Return the first import name a host needs that is not installed, with the extra that installs it."""
    for name, extra in entry.spec.requires.items():
        if find_spec(name.partition(".")[0]) is None:
            return name, extra
    return None


def _host_fault(chosen: _Chosen, entry: HostEntry) -> str:
    missing = _missing(entry)
    if missing is None:
        return ""
    name, extra = missing
    text = f"host {entry.spec.name} needs {name}, which is not installed"
    if chosen.exactly("host", entry.spec.name):
        raise MissingExtra(text, hint=f"pip install 'pytest-frt[{extra}]'")
    return f"{text}: pip install 'pytest-frt[{extra}]'"


@dataclass(frozen=True, slots=True)
class _Row:
    """One combination on its way to a verdict."""

    chosen: _Chosen
    registry: Registry
    facts: Sequence[DeviceFacts]
    impl: ImplEntry
    cell: Cell

    def not_asked(self) -> str | None:
        """Say why the combination does not exist by declaration; such rows show only where they were spelled out."""
        impl, cell = self.impl.impl, self.cell
        host = self.registry.hosts[cell.host].spec
        if cell.scheme not in impl.schemes:
            spelled = self.chosen.exactly("scheme", cell.scheme) and self.chosen.exactly("impl", cell.impl)
            return f"impl {cell.impl} runs {', '.join(impl.schemes)}, not {cell.scheme}" if spelled else ""
        if host.structures and cell.structure not in host.structures:
            spelled = self.chosen.exactly("structure", cell.structure)
            return f"host {cell.host} declares {', '.join(host.structures)}, not {cell.structure}" if spelled else ""
        return None

    def verdict(self) -> Planned | NotSupported:
        """Say whether the cell can run here."""
        impl, device = self.impl.impl, self.registry.devices[self.cell.device]
        fault = _host_fault(self.chosen, self.registry.hosts[self.cell.host])
        if not fault and self.cell.scheme not in self.registry.schemes:
            fault = f"scheme {self.cell.scheme} is not installed"
        if not fault and device.spec.kind not in impl.devices:
            fault = (
                f"impl {impl.name} runs on {', '.join(impl.devices)}, device {device.spec.name} is {device.spec.kind}"
            )
        if fault:
            return NotSupported(self.cell, fault)
        absent = absence(device, self.facts)
        return self._elsewhere(absent) if absent else Planned(self.cell)

    def _elsewhere(self, absent: str) -> Planned | NotSupported:
        """Say whether a CPU may stand in for an absent device that the impl runs on."""
        impl, device, scheme = self.impl.impl, self.registry.devices[self.cell.device].spec, self.cell.scheme
        if scheme not in impl.emulate:
            why = f"impl {impl.name} declares no emulation of {scheme}"
        elif scheme not in device.emulate:
            why = f"device {device.name} admits no emulation of {scheme}"
        elif not self.chosen.exactly("device", device.name):
            why = f"--frt-device={device.name} emulates its numerics"
        else:
            return Planned(self.cell, emulated=True)
        return NotSupported(self.cell, f"{absent}; {why}", absent=True)


def _rows(
    chosen: _Chosen, registry: Registry, facts: Sequence[DeviceFacts], devices: Sequence[str]
) -> Iterator[Planned | NotSupported]:
    names: Callable[[str, Iterable[str]], list[str]] = chosen.names
    hosts, structures = names("host", registry.hosts), names("structure", registry.structures)
    impls = names("impl", (entry.impl.name for entry in registry.impls.values()))
    offered = {scheme for entry in registry.impls.values() for scheme in entry.impl.schemes}
    schemes = names("scheme", offered | set(registry.schemes))
    for host, structure, impl, scheme, device in product(hosts, structures, impls, schemes, devices):
        entry = registry.impls.get(f"{structure}/{impl}")
        if entry is None:
            continue
        row = _Row(chosen, registry, facts, entry, Cell(structure, impl, host, scheme, device))
        why = row.not_asked()
        if why is None:
            yield row.verdict()
        elif why:
            yield NotSupported(row.cell, why)


def expand(
    selection: Selection, registry: Registry, facts: DeviceFacts | Sequence[DeviceFacts]
) -> tuple[Planned | NotSupported, ...]:
    """Cross the registry with a selection and the present machine.

    Without a device filter the devices are those present. A combination that an impl or host excludes by declaration
    makes a row only when it was spelled out.

    Args:
        selection: Globs per dimension; ``all`` means ``*``.
        registry: What is installed.
        facts: The present device or devices.

    Returns:
        Rows by host, structure, impl, scheme and device.

    Raises:
        UsageFault: a filter matches nothing, or the filters together select no cell.
        MissingExtra: a host named by itself needs a package that is not installed.
        ProviderBroken: a filter names an entry that could not be read.
    """
    present = (facts,) if isinstance(facts, DeviceFacts) else tuple(facts)
    chosen = _Chosen(selection, registry)
    devices = _devices(chosen, selection, registry, present)
    rows = tuple(_rows(chosen, registry, present, devices))
    if not rows:
        offered = (f"{key}: {', '.join(entry.impl.schemes)}" for key, entry in sorted(registry.impls.items()))
        raise UsageFault("the filters together select no cell", hint=f"impls and their schemes: {'; '.join(offered)}")
    return rows
