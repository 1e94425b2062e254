"""Entries of a provider, read from its files: yaml for the catalog, hosts and devices, ``ast`` for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_frt.contracts.device import DeviceSpec
from pytest_frt.contracts.host import HostSpec
from pytest_frt.contracts.impl import Impl
from pytest_frt.contracts.pipeline import Pipeline
from pytest_frt.contracts.structure import Structure
from pytest_frt.errors import ProviderBroken, SpecError
from pytest_frt.spec import packages
from pytest_frt.spec.literals import DECLARED_SCHEME, declared_call, literal_keywords, read_impl
from pytest_frt.spec.load import load_device, load_host, load_structure
from pytest_frt.spec.pipelines import CONFORMANCE, load_pipeline


@dataclass(frozen=True, slots=True)
class Provider:
    """One entry point, or a folder given on the command line.

    Attributes:
        group: ``catalog``, ``impls``, ``hosts``, ``devices`` or ``schemes``.
        package: Dotted package that holds the entries; empty for a folder.
        distribution: Name and version of the distribution; ``folder`` for a folder.
        folder: Where the package lies.
    """

    group: str
    package: str
    distribution: str
    folder: Path


@dataclass(frozen=True, slots=True)
class StructureEntry:
    """A structure: its specification and its folder (structure.yaml, reference.py, cases.py)."""

    spec: Structure
    folder: Path
    provider: Provider

    @property
    def reference_file(self) -> Path:
        """Path of reference.py."""
        return self.folder / "reference.py"

    @property
    def cases_file(self) -> Path:
        """Path of cases.py."""
        return self.folder / "cases.py"


@dataclass(frozen=True, slots=True)
class PipelineEntry:
    """A stage pipeline: its specification and its folder (pipeline.yaml, conformance.py)."""

    spec: Pipeline
    folder: Path
    provider: Provider

    @property
    def conformance_file(self) -> Path:
        """Path of conformance.py."""
        return self.folder / CONFORMANCE


@dataclass(frozen=True, slots=True)
class ImplEntry:
    """An impl: its declaration as read from the source, and the files that executing it executes.

    Attributes:
        impl: The ``IMPL`` literal.
        file: Its module.
        closure: First-party import closure, dependencies first, ``file`` last.
        provider: Where it comes from.
    """

    impl: Impl
    file: Path
    closure: tuple[Path, ...]
    provider: Provider


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host: its specification and its folder (host.yaml, host.py)."""

    spec: HostSpec
    folder: Path
    provider: Provider


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A device profile and its file."""

    spec: DeviceSpec
    file: Path
    provider: Provider


@dataclass(frozen=True, slots=True)
class SchemeEntry:
    """A scheme by name; its numbers are known once a worker has executed ``file``.

    Attributes:
        name: Scheme name.
        summary: One sentence.
        calibrated: True when it needs static activation scales.
        file: Its module.
        provider: Where it comes from.
    """

    name: str
    summary: str
    calibrated: bool
    file: Path
    provider: Provider


@dataclass(frozen=True, slots=True)
class Broken:
    """A provider or one of its entries that could not be read.

    Attributes:
        group: Entry-point group without its prefix.
        name: Entry name, or the package when the whole provider is broken.
        provider: Distribution.
        reason: What is wrong, naming file, key and value.
    """

    group: str
    name: str
    provider: str
    reason: str

    def error(self) -> ProviderBroken:
        """Return the error to raise where this entry is needed."""
        return ProviderBroken(f"{self.group} entry {self.name} of {self.provider} is broken: {self.reason}")


Entry = StructureEntry | PipelineEntry | ImplEntry | HostEntry | DeviceEntry | SchemeEntry
Found = Iterator[tuple[str, Callable[[], Entry]]]
"""Entry names, each with the call that reads the entry: one that cannot be read spoils no other."""


def _visible(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in sorted(paths) if not path.name.startswith(("_", ".")))


def _folders_with(marker: str, provider: Provider) -> Iterator[Path]:
    return _visible(file.parent for file in provider.folder.glob(f"*/{marker}"))


def _structure(folder: Path, provider: Provider) -> StructureEntry:
    return StructureEntry(load_structure(folder), folder, provider)


def host_entry(folder: Path, provider: Provider) -> HostEntry:
    """Read the host in ``folder``.

    Raises:
        SpecError: host.yaml or host.py is missing or host.yaml breaks its schema.
    """
    return HostEntry(load_host(folder), folder, provider)


def _device(file: Path, provider: Provider) -> DeviceEntry:
    return DeviceEntry(load_device(file), file, provider)


def _pipeline(folder: Path, provider: Provider) -> PipelineEntry:
    return PipelineEntry(load_pipeline(folder), folder, provider)


def _catalog(provider: Provider) -> Found:
    for folder in _folders_with("structure.yaml", provider):
        yield folder.name, partial(_structure, folder, provider)
    for folder in _folders_with("pipeline.yaml", provider):
        yield folder.name, partial(_pipeline, folder, provider)


def _hosts(provider: Provider) -> Found:
    for folder in _folders_with("host.yaml", provider):
        yield folder.name, partial(host_entry, folder, provider)


def _devices(provider: Provider) -> Found:
    for file in _visible(provider.folder.glob("*.yaml")):
        yield file.stem, partial(_device, file, provider)


def impl_entry(file: Path, provider: Provider) -> ImplEntry:
    """Read the impl in ``file`` and its import closure.

    Raises:
        SpecError: the ``IMPL`` literal is missing or wrong.
        SyntaxError: a file of the closure does not parse.
    """
    roots = packages.first_party_roots(provider.package, provider.folder) if provider.package else {}
    return ImplEntry(read_impl(file), file, packages.import_closure(file, roots), provider)


def _impls(provider: Provider) -> Found:
    for folder in _visible(path for path in provider.folder.iterdir() if path.is_dir()):
        for file in _visible(folder.glob("*.py")):
            yield f"{folder.name}/{file.stem}", partial(impl_entry, file, provider)


def _scheme(file: Path, provider: Provider) -> SchemeEntry:
    words = literal_keywords(declared_call(file, DECLARED_SCHEME, "Scheme"))
    if words.get("name") != file.stem or not isinstance(words.get("summary"), str):
        raise SpecError(f"{file}: SCHEME: name must be {file.stem!r} and summary one sentence, both as literals")
    return SchemeEntry(file.stem, words["summary"], words.get("statistic") != "none", file, provider)


def _schemes(provider: Provider) -> Found:
    for file in _visible(provider.folder.glob("*.py")):
        yield file.stem, partial(_scheme, file, provider)


SCANS: Mapping[str, Callable[[Provider], Found]] = {
    "catalog": _catalog,
    "impls": _impls,
    "hosts": _hosts,
    "devices": _devices,
    "schemes": _schemes,
}
"""Entry-point group without its prefix to what lists its entries."""
