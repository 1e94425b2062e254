"""What the options select, where it takes the registry to tell: host folders, gates, phases and device profiles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.devices.probe import matches, present_facts
from pytest_frt.errors import SpecError, UsageFault
from pytest_frt.expand import EVERY
from pytest_frt.options import BY_KEY, SELECTING, nearest
from pytest_frt.registry import DeviceEntry, Registry, did_you_mean
from pytest_frt.rules.fold import PLAN_GATES, RECORD_GATES
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.schemes._auto import AUTO, Choice, choose
from pytest_frt.settings import Settings, run_config

GATES = (*RECORD_GATES, *PLAN_GATES)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asked for.

    Attributes:
        settings: The run's settings; hosts go by name.
        registry: What is installed, and the hosts given as folders.
        folders: Host name to the folder that was given for it.
        gates: Gates whose items are kept.
    """

    settings: RunConfig
    registry: Registry
    folders: Mapping[str, Path]
    gates: tuple[str, ...]


def wanted(settings: Settings, registry: Registry, facts: tuple[DeviceFacts, ...], *, is_worker: bool) -> Wanted:
    """Resolve options against the registry and the machine.

    Args:
        settings: Options; looked up once for the devices, and then with the profiles of those.
        registry: What is installed.
        facts: The present devices; the first is the CPU.
        is_worker: See ``options.run_config``.

    Raises:
        UsageFault: a value that cannot be used, a gate, phase or scheme that does not exist, or an automatic scheme
            that would be another on each of several devices.
        SpecError: a host folder or a device profile that cannot be read.
    """
    settings.profile = _profile(_devices(settings.get("device"), registry, facts))
    run = run_config(settings, threads=facts[0].threads, is_worker=is_worker)
    gates = _known("gate", settings.get("gate") or ("*",), GATES)
    run, registry, folders = _with_folders(run, registry, settings.base("host"))
    run = _with_scheme(run, registry, facts)
    phases = {phase.name for entry in registry.hosts.values() for phase in entry.spec.phases}
    for option, globs in (("phase", run.selection.include), ("exclude-phase", run.selection.exclude)):
        _known(option, globs.get("phase", ()), phases)
    return Wanted(run, registry, folders, gates)


def _known(option: str, globs: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that any glob matches; a glob that matches none is a typo."""
    known = tuple(names)
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in known):
            raise UsageFault(
                f"--frt-{option}={glob} matches no {option.removeprefix('exclude-')}", hint=nearest(glob, known)
            )
    return tuple(name for name in known if any(fnmatchcase(name, glob) for glob in globs))


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(glob in EVERY or fnmatchcase(name, glob) for glob in globs)


def _devices(globs: tuple[str, ...], registry: Registry, facts: tuple[DeviceFacts, ...]) -> list[DeviceEntry]:
    """Return the devices asked for, those present when none was."""
    entries = registry.devices.values()
    if globs:
        return [entry for entry in entries if _matches(entry.spec.name, globs)]
    return [entry for entry in entries if any(matches(entry.spec, one) is None for one in facts)]


def _profile(devices: Iterable[DeviceEntry]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    allowed = BY_KEY.keys() - {option.key for option in SELECTING}
    for entry in devices:
        for key, value in entry.spec.defaults.items():
            if key not in allowed:
                raise SpecError(f"device {entry.spec.name} has a default for {key!r}", hint=nearest(key, allowed))
            found.setdefault(key, (value, f"device profile {entry.spec.name}"))
    return found


def _with_folders(run: RunConfig, registry: Registry, base: Path) -> tuple[RunConfig, Registry, dict[str, Path]]:
    """Read hosts given as folders, and put their names in the place of the paths."""
    folders: dict[str, Path] = {}
    globs: list[str] = []
    for glob in run.selection.include.get("host", ()):
        if os.sep not in glob:
            globs.append(glob)
            continue
        folder = (base / Path(glob).expanduser()).resolve()
        if not (folder / "host.yaml").is_file():
            raise UsageFault(f"--frt-host={glob}: {folder} holds no host.yaml", hint="name the folder of a host")
        registry = registry.with_host(folder)
        name = next(entry.spec.name for entry in registry.hosts.values() if Path(entry.spec.folder) == folder)
        folders[name] = folder
        globs.append(name)
    if not folders:
        return run, registry, folders
    include = {**run.selection.include, "host": tuple(globs)}
    return replace(run, selection=Selection(include, run.selection.exclude)), registry, folders


def _with_scheme(run: RunConfig, registry: Registry, facts: tuple[DeviceFacts, ...]) -> RunConfig:
    """Put the scheme that ``auto`` is on the device of the run in its place, and say why where settings come from."""
    include, exclude = run.selection.include, run.selection.exclude
    globs = include.get("scheme", ())
    _check_schemes(globs, registry)
    if AUTO not in globs:
        return run
    drop, devices = exclude.get("device", ()), _devices(include.get("device", ()), registry, facts)
    choices = [choose(one.spec.name, _facts_of(one, facts)) for one in devices if not _matches(one.spec.name, drop)]
    if len({one.scheme for one in choices}) > 1:
        said, last = "; ".join(map(str, choices)), choices[-1].device
        raise UsageFault(f"--frt-scheme={AUTO}: {said}", hint=f"name one device, e.g. --frt-device={last}")
    return _chosen(run, choices) if choices else run


def _check_schemes(globs: Iterable[str], registry: Registry) -> None:
    """Refuse a glob that matches neither a scheme nor ``auto``; entries that could not be read are told of later."""
    offered = {scheme for entry in registry.impls.values() for scheme in entry.impl.schemes}
    known = {*registry.schemes, *offered, AUTO}
    faulty = {fault.name for fault in registry.broken if fault.group == "schemes"}
    for glob in globs:
        if not any(_matches(name, (glob,)) for name in known | faulty):
            raise UsageFault(f"--frt-scheme={glob} matches no scheme", hint=did_you_mean(glob, known))


def _facts_of(entry: DeviceEntry, facts: tuple[DeviceFacts, ...]) -> DeviceFacts | None:
    """Return the facts of a present device with its architecture, which for a GPU takes torch to tell."""
    found = next((one for one in facts if matches(entry.spec, one) is None), None)
    return present_facts(found.kind) if found is not None and found.kind == "cuda" and not found.arch else found


def _chosen(run: RunConfig, choices: Sequence[Choice]) -> RunConfig:
    names = [one.scheme for one in choices] + [glob for glob in run.selection.include["scheme"] if glob != AUTO]
    include = {**run.selection.include, "scheme": tuple(dict.fromkeys(names))}
    origin = "; ".join([run.origins["scheme"], *map(str, choices)])
    return replace(run, selection=Selection(include, run.selection.exclude), origins={**run.origins, "scheme": origin})
