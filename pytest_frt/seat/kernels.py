"""Import a kernel build: exactly the bytes its digest binds, once per process, through the ``kernels`` client."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from pytest_frt.contracts.record import KernelFacts
from pytest_frt.errors import KernelMismatch, KernelUnavailable
from pytest_frt.seat.kernel_build import HubPin, KernelBuild, KernelRefused, is_own, read_build, resolve
from pytest_frt.spec.tree import tree_digest, tree_files

__all__ = ["HubPin", "KernelBuild", "KernelRefused", "check_origin", "load", "load_build", "read_build", "resolve"]

CLIENTS: Final = ((0, 15), (0, 18))
"""Releases of the client that were run: from the first, below the second."""
_ID: Final = re.compile(r"[a-z_][a-z0-9_]*")


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


def load_build(build: KernelBuild) -> ModuleType:
    """Import a build through the ``kernels`` client, once per process, and check where its modules came from.

    A build whose bytes are already loaded is not imported again, from whatever folder it is asked for.

    Raises:
        KernelRefused: the id is taken or unsafe, the build needs other kernels, or a module lies outside the folder.
        KernelMismatch: another build of this id is loaded, or the folder changed since ``build`` was read.
        Exception: whatever the kernel's own code raises while it is imported.
    """
    if (loaded := _LOADED.get(build.id)) is not None:
        return _same(build, loaded)
    _check_id(build)
    _check_unchanged(build)
    client = _client()
    with _no_bytecode():
        module: ModuleType = client.get_local_kernel(build.folder)
    check_origin(build)
    _check_unchanged(build)
    _LOADED[build.id] = _Loaded(build, module)
    return module


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


def _check_id(build: KernelBuild) -> None:
    taken = ""
    if not _ID.fullmatch(build.id):
        taken = "is not of the form [a-z_][a-z0-9_]*"
    elif build.id in sys.stdlib_module_names or build.id in sys.builtin_module_names:
        taken = "is a module of the standard library"
    elif build.id in sys.modules:
        taken = f"is already imported from {getattr(sys.modules[build.id], '__file__', None)}"
    elif find_spec(build.id) is not None:
        taken = "is an installed module"
    elif operators := _registered_ops(build.id):
        taken = f"is the namespace of ops already registered: {', '.join(operators)}"
    if taken:
        raise KernelRefused(
            f"kernel {build.facts.repo} in {build.folder}: its id {build.id[:80]!r} {taken}",
            hint="build it with an id of its own",
        )


def _registered_ops(namespace: str) -> list[str]:
    torch = importlib.import_module("torch")
    return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{namespace}::")]  # noqa: SLF001


def _check_unchanged(build: KernelBuild) -> None:
    now = tree_digest(tree_files(build.folder, leave_bytecode=is_own(build.folder)))
    if now != build.facts.tree_digest:
        raise KernelMismatch(
            f"kernel {build.facts.repo} in {build.folder} has tree digest {now}, it had {build.facts.tree_digest}",
            hint="do not change a build while it is in use",
        )


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Import from source alone: compiled files beside it are neither written nor looked at."""
    before = sys.dont_write_bytecode, sys.pycache_prefix
    sys.dont_write_bytecode, sys.pycache_prefix = True, os.devnull
    try:
        yield
    finally:
        sys.dont_write_bytecode, sys.pycache_prefix = before
