"""``frt doctor``: is this machine fit to certify, and what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.devices.probe import machine_facts, matches
from pytest_frt.errors import FrtError
from pytest_frt.registry import Registry
from pytest_frt.seat.kernel_build import resolve
from pytest_frt.settings import default_cache

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

DISTRIBUTION: Final = "pytest-frt"
DEVELOPMENT: Final = "dev"
OK, WARN, FAIL = "ok", "warn", "FAIL"
COMPILERS: Final = ("c++", "g++", "clang++")
_REQUIREMENT: Final = re.compile(r"""([\w.-]+)\s*([^;]*)(?:;.*extra\s*==\s*["'](\w+)["'])?""")
_BOUND: Final = re.compile(r"(>=|<=|==|<|>)\s*([\w.]+)")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report: ``state`` is ``ok``, ``warn`` (something will be NOT_SUPPORTED) or ``FAIL``."""

    state: str
    name: str
    detail: str


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt doctor``."""
    command = subparsers.add_parser("doctor", help="check versions, extras, providers, kernels, devices and folders")
    command.set_defaults(func=show)


def show(_: argparse.Namespace) -> int:
    """Print one line per check; 1 when any failed."""
    checks = [*_python(), *_requirements(), *_entries(), *_devices(), *_kernels(), *_folders(), _compiler()]
    for check in checks:
        print(f"{check.state:<5}{check.name}: {check.detail}")
    return 1 if any(check.state == FAIL for check in checks) else 0


def release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: what the windows of this distribution are written in."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()


def inside(version: str, bounds: str) -> bool:
    """Report whether a version lies in a window such as ``>=5.14,<5.25``."""
    found = release(version)
    for op, limit in _BOUND.findall(bounds):
        wanted = release(limit)
        width = max(len(found), len(wanted))
        have, need = (part + (0,) * (width - len(part)) for part in (found, wanted))
        if not {">=": have >= need, "<=": have <= need, "==": have == need, "<": have < need, ">": have > need}[op]:
            return False
    return True


def _python() -> Iterator[Check]:
    window = importlib.metadata.metadata(DISTRIBUTION)["Requires-Python"] or ""
    state = OK if inside(platform.python_version(), window) else FAIL
    yield Check(state, "python", f"{platform.python_version()}, needs {window}")


def _requirements() -> Iterator[Check]:
    for text in importlib.metadata.requires(DISTRIBUTION) or ():
        if (parts := _REQUIREMENT.match(text)) is None:
            continue
        name, window, extra = parts.group(1), parts.group(2).strip(), parts.group(3)
        if extra == DEVELOPMENT:
            continue
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            hint = f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install '{DISTRIBUTION}'"
            yield Check(WARN if extra else FAIL, name, f"absent ({window}): {hint}")
            continue
        yield Check(OK if inside(found, window) else FAIL, name, f"{found}, needs {window}")


def _entries() -> Iterator[Check]:
    registry = Registry.load()
    counts = (f"{len(registry.structures)} structures", f"{len(registry.impls)} impls", f"{len(registry.hosts)} hosts")
    yield Check(OK, "entries", f"{', '.join(counts)}, {len(registry.schemes)} schemes, {len(registry.devices)} devices")
    for fault in registry.broken:
        yield Check(FAIL, f"{fault.group} provider {fault.name}", f"{fault.provider}: {fault.reason}")


def _devices() -> Iterator[Check]:
    profiles = Registry.load().devices
    for facts in machine_facts():
        names = [name for name, entry in profiles.items() if matches(entry.spec, facts) is None]
        detail = f"{facts.name}: profile {', '.join(names)}" if names else f"{facts.name}: no device profile matches"
        yield Check(OK if names else WARN, f"device {facts.kind}", detail)


def _kernels() -> Iterator[Check]:
    wanted = {(entry.impl.kernel, kind) for entry in Registry.load().impls.values() for kind in entry.impl.devices}
    for repo, kind in sorted(wanted):
        try:
            build = resolve(repo, backend=kind)
        except FrtError as fault:
            yield Check(WARN, f"kernel {repo} on {kind}", fault.message)
        else:
            yield Check(OK, f"kernel {repo} on {kind}", f"{build.facts.variant} in {build.folder}")


def _folders() -> Iterator[Check]:
    for name, folder in (("cache", default_cache()), ("temporary files", Path(tempfile.gettempdir()))):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(there).free >> 20
        try:
            tempfile.TemporaryFile(dir=there).close()
        except OSError as fault:
            yield Check(FAIL, name, f"{folder} cannot be written: {fault.strerror}")
        else:
            yield Check(OK, name, f"{folder}, {free} MiB free")


def _compiler() -> Check:
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    return Check(OK if found else WARN, "compiler", found or "none: the compiled form of hosts cannot run")
