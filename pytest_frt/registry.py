"""What is installed: structures, pipelines, impls, hosts, devices and schemes: entry points, read as files.

No provider is executed. An entry that cannot be read is kept as :class:`Broken`, with its reason.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from pytest_frt.cell import Cell
from pytest_frt.errors import ProviderBroken, SpecError, UsageFault
from pytest_frt.spec import packages
from pytest_frt.spec.declared import check_declared
from pytest_frt.spec.entries import (
    SCANS,
    Broken,
    DeviceEntry,
    Entry,
    HostEntry,
    ImplEntry,
    PipelineEntry,
    Provider,
    SchemeEntry,
    StructureEntry,
    host_entry,
)
from pytest_frt.spec.literals import DECLARED_IMPL, read_impl
from pytest_frt.spec.modules import load_file
from pytest_frt.spec.pipelines import check_embedded
from pytest_frt.spec.subjects import host_subjects, impl_subjects, scheme_subjects, structure_subjects

__all__ = [
    "Broken",
    "DeviceEntry",
    "HostEntry",
    "ImplEntry",
    "PipelineEntry",
    "Provider",
    "Registry",
    "SchemeEntry",
    "StructureEntry",
    "did_you_mean",
    "load_impl",
    "load_module",
]

GROUP_PREFIX = "pytest_frt."
V = TypeVar("V")
Named = TypeVar("Named", ImplEntry, PipelineEntry)
"""Entries that name what a structure has, or structures."""
UNREADABLE = (SpecError, ProviderBroken, OSError, SyntaxError, UnicodeDecodeError)
"""What a faulty provider can raise while its files are read."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known word and lists them all."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1)
    listed = f"known: {', '.join(names) or 'none'}"
    return f"did you mean {near[0]!r}? {listed}" if near else listed


@dataclass(frozen=True, slots=True)
class Registry:
    """Every entry that can be read, by name, and those that cannot.

    Attributes:
        structures: Structure name to entry.
        impls: ``<structure>/<impl>`` to entry.
        hosts: Host name to entry.
        devices: Device name to entry.
        schemes: Scheme name to entry.
        pipelines: Stage pipeline name to entry.
        broken: Providers and entries that could not be read.
    """

    structures: Mapping[str, StructureEntry] = field(default_factory=dict)
    impls: Mapping[str, ImplEntry] = field(default_factory=dict)
    hosts: Mapping[str, HostEntry] = field(default_factory=dict)
    devices: Mapping[str, DeviceEntry] = field(default_factory=dict)
    schemes: Mapping[str, SchemeEntry] = field(default_factory=dict)
    pipelines: Mapping[str, PipelineEntry] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()

    @classmethod
    def load(cls) -> Registry:
        """Read every installed provider.

        Raises:
            SpecError: two providers give one name to different entries; the message names both.
        """
        broken: list[Broken] = []
        providers = list(_providers(broken))
        return cls.of(providers, broken)

    @classmethod
    def of(cls, providers: Iterable[Provider], broken: Iterable[Broken] = ()) -> Registry:
        """Read the given providers.

        Raises:
            SpecError: two providers give one name to different entries; the message names both.
        """
        faults = list(broken)
        tables: dict[str, dict[str, Entry]] = {group: {} for group in SCANS}
        for provider in providers:
            for name, entry in _readable(provider, faults):
                table = tables[provider.group]
                if (other := table.get(name)) is not None:
                    raise SpecError(
                        f"{provider.group} entry {name!r} is given twice: by {other.provider.distribution} "
                        f"({other.provider.folder}) and by {provider.distribution} ({provider.folder})",
                        hint="rename one of them or uninstall its distribution",
                    )
                table[name] = entry
        structures = _only(tables["catalog"], StructureEntry)
        return cls(
            structures=structures,
            impls=_sound(_only(tables["impls"], ImplEntry), _impl_declares, structures, faults),
            hosts=_only(tables["hosts"], HostEntry),
            devices=_only(tables["devices"], DeviceEntry),
            schemes=_only(tables["schemes"], SchemeEntry),
            pipelines=_sound(_only(tables["catalog"], PipelineEntry), _pipeline_embeds, structures, faults),
            broken=tuple(faults),
        )

    def with_host(self, folder: str | Path) -> Registry:
        """Return a registry that also knows the host in ``folder``; an installed one of its name gives way.

        Raises:
            SpecError: the folder holds no readable host.
        """
        at = Path(folder).resolve()
        entry = host_entry(at, Provider("hosts", "", "folder", at.parent))
        return replace(self, hosts={**self.hosts, entry.spec.name: entry})

    def structure(self, name: str) -> StructureEntry:
        """Return a structure by name.

        Raises:
            UsageFault: there is none; the hint names the nearest.
            ProviderBroken: there is one that could not be read.
        """
        return self._get("catalog", self.structures, name)

    def pipeline(self, name: str) -> PipelineEntry:
        """Return a stage pipeline by name; raises like :meth:`structure`."""
        return self._get("catalog", self.pipelines, name)

    def impl(self, structure: str, name: str) -> ImplEntry:
        """Return an impl of a structure; raises like :meth:`structure`."""
        return self._get("impls", self.impls, f"{structure}/{name}")

    def host(self, name: str) -> HostEntry:
        """Return a host by name; raises like :meth:`structure`."""
        return self._get("hosts", self.hosts, name)

    def device(self, name: str) -> DeviceEntry:
        """Return a device profile by name; raises like :meth:`structure`."""
        return self._get("devices", self.devices, name)

    def scheme(self, name: str) -> SchemeEntry:
        """Return a scheme by name; raises like :meth:`structure`."""
        return self._get("schemes", self.schemes, name)

    def files(self, cell: Cell) -> dict[str, Path]:
        """Return every file that a certificate of a cell binds by its bytes, by the name of its subject.

        Nothing is executed; kernels go by their tree and are not among them.

        Raises:
            UsageFault: an entry is not installed.
            ProviderBroken: one could not be read.
            SpecError: an import leads out of the folder of its provider.
            SyntaxError: a file that the host imports does not parse.
            OSError: one cannot be read.
        """
        return {
            **impl_subjects(self.impl(cell.structure, cell.impl)),
            **structure_subjects(self.structure(cell.structure)),
            **scheme_subjects(self.scheme(cell.scheme)),
            **host_subjects(self.host(cell.host)),
        }

    def _get(self, group: str, table: Mapping[str, V], name: str) -> V:
        if name in table:
            return table[name]
        for fault in self.broken:
            if (fault.group, fault.name) == (group, name):
                raise fault.error()
        raise UsageFault(f"no {group} entry is called {name!r}", hint=did_you_mean(name, table))


def _only(table: Mapping[str, Entry], kind: type[V]) -> dict[str, V]:
    return {name: entry for name, entry in table.items() if isinstance(entry, kind)}


def _sound(
    table: Mapping[str, Named],
    check: Callable[[Named, Mapping[str, StructureEntry]], None],
    structures: Mapping[str, StructureEntry],
    broken: list[Broken],
) -> dict[str, Named]:
    """Return the entries that a check finds in order beside the structures; the others are noted in ``broken``."""
    sound: dict[str, Named] = {}
    for name, entry in table.items():
        try:
            check(entry, structures)
        except SpecError as fault:
            broken.append(Broken(entry.provider.group, name, entry.provider.distribution, fault.message))
        else:
            sound[name] = entry
    return sound


def _pipeline_embeds(entry: PipelineEntry, structures: Mapping[str, StructureEntry]) -> None:
    check_embedded(entry.spec, structures)


def _impl_declares(entry: ImplEntry, structures: Mapping[str, StructureEntry]) -> None:
    """Hold an impl to its structure; without one there is nothing to hold it to."""
    if (structure := structures.get(entry.impl.structure)) is not None:
        check_declared(entry.impl, structure.spec, str(entry.file))


def _providers(broken: list[Broken]) -> Iterator[Provider]:
    """Yield one provider per installed entry point; those without a folder on disk are noted in ``broken``."""
    installed = metadata.entry_points()
    for group in SCANS:
        seen: set[str] = set()
        for point in sorted(installed.select(group=f"{GROUP_PREFIX}{group}"), key=lambda point: point.value):
            if point.value in seen:
                continue
            seen.add(point.value)
            origin = f"{point.dist.name} {point.dist.version}" if point.dist else point.name
            try:
                yield Provider(group, point.value, origin, packages.package_folder(point.value))
            except UNREADABLE as fault:
                broken.append(Broken(group, point.value, origin, str(fault)))


def _readable(provider: Provider, broken: list[Broken]) -> Iterator[tuple[str, Entry]]:
    """Yield the entries of a provider that can be read; the others, and one that has none, are noted in ``broken``."""
    found = list(SCANS[provider.group](provider))
    if not found:
        message = f"{provider.folder} holds no entry of {provider.group}: are its yaml files in the distribution?"
        broken.append(Broken(provider.group, provider.package, provider.distribution, message))
    for name, read in found:
        try:
            yield name, read()
        except UNREADABLE as fault:
            broken.append(Broken(provider.group, name, provider.distribution, str(fault)))


def load_module(file: str | Path) -> ModuleType:
    """Execute an impl, host, catalog or scheme file. Called by workers and the runtime only.

    A file with relative imports belongs to the installed provider that holds it; any other gets a name of its own.

    Raises:
        SpecError: the file cannot be read, or has relative imports and lies in no installed provider.
        Exception: whatever executing the file raises.
    """
    path = Path(file).resolve()
    source = path.read_bytes() if path.is_file() else b""
    if not packages.has_relative_import(ast.parse(source, filename=str(path))):
        return load_file(path)
    for provider in _providers([]):
        if package := packages.dotted_package(path, {provider.package: provider.folder}):
            return load_file(path, package=package)
    raise SpecError(f"{path}: has relative imports but lies in no installed provider", hint="import by absolute name")


def load_impl(impl: ImplEntry | str | Path) -> ModuleType:
    """Execute an impl and check that it declares at run time what was read from its source.

    Args:
        impl: An entry, whose literal was read earlier, or the path of a module, whose literal is read now.

    Raises:
        SpecError: the source has no sound ``IMPL`` literal, or the object ``IMPL`` at run time differs from it.
        Exception: whatever executing the file raises.
    """
    file, expected = (impl.file, impl.impl) if isinstance(impl, ImplEntry) else (impl, read_impl(Path(impl)))
    module = load_module(file)
    found = getattr(module, DECLARED_IMPL, None)
    if found != expected:
        raise SpecError(f"{file}: IMPL at run time is {found!r}, the source says {expected!r}")
    return module
