"""Import a kernel build: exactly the bytes its digest binds, once per process, through the ``kernels`` client."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Final

from pytest_frt.contracts.record import KernelFacts
from pytest_frt.errors import KernelMismatch, KernelUnavailable
from pytest_frt.seat.alone import alone
from pytest_frt.seat.identity import IdentityRefused, check_id
from pytest_frt.seat.kernel_build import HubPin, KernelBuild, KernelRefused, is_own, read_build, resolve
from pytest_frt.spec.tree import tree_digest, tree_files

__all__ = [
    "HubPin",
    "KernelBuild",
    "KernelRefused",
    "check_identity",
    "check_origin",
    "load",
    "load_build",
    "loaded",
    "read_build",
    "resolve",
]

CLIENTS: Final = ((0, 15), (0, 18))
"""Releases of the client that were run: from the first, below the second."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    build: KernelBuild
    module: ModuleType


_LOADED: Final[dict[str, _Loaded]] = {}


def load(repo: str, path: Path, *, backend: str | None = None) -> tuple[ModuleType, KernelFacts]:
    """Read a local build and import it; see :func:`load_build`.

    Args:
        repo: Repo id the build is used for.
        path: Kernel project, ``build`` folder or variant folder.
        backend: As for :func:`resolve`.

    Raises:
        KernelUnavailable: no variant in ``path`` serves this machine.
        KernelRefused: the build must not be imported.
        KernelMismatch: its bytes changed since it was read.
        TreeInvalid: as for :func:`resolve`.
    """
    build = read_build(repo, path, backend=backend)
    return load_build(build), build.facts


def load_build(build: KernelBuild, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> ModuleType:
    """Import a build through the ``kernels`` client, once per process, and check where its modules came from.

    A build whose bytes are already loaded is not imported again, from whatever folder it is asked for. Threads load one
    after the other.

    Args:
        build: What to import.
        around: Entered around the import: the one step that runs code of the build.

    Raises:
        IdentityRefused: the id is taken or unsafe.
        KernelRefused: a module lies outside the folder.
        KernelMismatch: another build of this id is loaded, or the folder changed since ``build`` was read.
        Exception: whatever the kernel's own code raises while it is imported.
    """
    with alone():
        if (held := _LOADED.get(build.id)) is not None:
            return _same(build, held)
        module = _import(build, around)
        _LOADED[build.id] = _Loaded(build, module)
        return module


def _import(build: KernelBuild, around: Callable[[], AbstractContextManager[None]]) -> ModuleType:
    check_id(build)
    _check_unchanged(build)
    client = _client()
    with ExitStack() as undo, _no_bytecode():
        # The client takes a kernel that raised out of sys.modules, its submodules not: a retry would get those.
        undo.callback(_forget, build.id)
        with around():
            module: ModuleType = client.get_local_kernel(build.folder)
        # What fails a check below stays in sys.modules, where a second try finds the id taken.
        undo.pop_all()
    check_origin(build)
    _check_unchanged(build)
    return module


def loaded(kernel_id: str) -> KernelBuild | None:
    """Return the build that is loaded under an id in this process, or None."""
    found = _LOADED.get(kernel_id)
    return None if found is None else found.build


def check_identity(build: KernelBuild) -> None:
    """Refuse a build that cannot be loaded beside what this process holds; nothing of it is imported.

    Raises:
        IdentityRefused: ``ID_TWICE`` for other bytes under an id that is loaded, or as :func:`identity.check_id`.
    """
    held = loaded(build.id)
    if held is None:
        check_id(build)
    elif held.facts.tree_digest != build.facts.tree_digest:
        raise IdentityRefused(
            "ID_TWICE",
            f"kernel id {build.id} is loaded with tree digest {held.facts.tree_digest}, "
            f"{build.folder} has {build.facts.tree_digest}: their submodules would mix",
            hint="one build per process: use a fresh one",
        )


def _forget(kernel_id: str) -> None:
    for name in [name for name in sys.modules if name == kernel_id or name.startswith(f"{kernel_id}.")]:
        del sys.modules[name]


def check_origin(build: KernelBuild) -> None:
    """Check that every loaded module of a build is one of its files; kernels may import some of them late.

    Raises:
        KernelRefused: a module has no file, or its file is not among the build's.
    """
    own = {build.folder / file.name for file in build.files}
    for name, module in list(sys.modules.items()):
        if name != build.id and not name.startswith(f"{build.id}."):
            continue
        origin = getattr(module, "__file__", None)
        if origin is None or Path(origin) not in own:
            raise KernelRefused(
                f"module {name} of kernel {build.facts.repo} was loaded from {origin}, outside {build.folder}",
                hint="run it in a fresh process with nothing else that loads this kernel",
            )


def _client() -> ModuleType:
    found = metadata.version("kernels")
    release = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if not CLIENTS[0] <= release < CLIENTS[1]:
        window = " <= kernels < ".join(".".join(map(str, end)) for end in CLIENTS)
        raise KernelUnavailable(f"kernels {found} is installed, {window} was run", hint="install a release in between")
    return importlib.import_module("kernels")


def _same(build: KernelBuild, loaded: _Loaded) -> ModuleType:
    have, want = loaded.build.facts.tree_digest, build.facts.tree_digest
    if have != want:
        raise KernelMismatch(
            f"kernel id {build.id} is loaded from {loaded.build.folder} with tree digest {have}, "
            f"{build.folder} has {want}: their submodules would mix",
            hint="one build per process: use a fresh one",
        )
    check_origin(loaded.build)
    return loaded.module


def _check_unchanged(build: KernelBuild) -> None:
    now = tree_digest(tree_files(build.folder, leave_bytecode=is_own(build.folder)))
    if now != build.facts.tree_digest:
        raise KernelMismatch(
            f"kernel {build.facts.repo} in {build.folder} has tree digest {now}, it had {build.facts.tree_digest}",
            hint="do not change a build while it is in use",
        )


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Import from source alone: compiled files beside it are neither written nor looked at.

    It holds for every import of this process meanwhile; :func:`alone` keeps two blocks from mixing what they put back.
    """
    before = sys.dont_write_bytecode, sys.pycache_prefix
    sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
    try:
        yield
    finally:
        sys.dont_write_bytecode, sys.pycache_prefix = before
