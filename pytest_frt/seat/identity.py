"""What a kernel build may be called: its id becomes a module and a namespace of ops for the whole process.

``kernels`` takes any id and puts the module into ``sys.modules`` under it, so an id can replace a module that others
rely on, or find one in place whose submodules and ops answer instead of its own.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Final

from pytest_frt.seat.kernel_build import KernelBuild, KernelRefused

OPS_FILE: Final = "_ops.py"
_ID: Final = re.compile(r"[a-z_][a-z0-9_]*")
_NAMESPACE: Final = re.compile(rb"torch\.ops\.([A-Za-z_][A-Za-z0-9_]*)")
_HINT: Final = "build it with an id of its own, or load it in a fresh process"
_SHOWN: Final = 80
"""Characters of an id that a message shows."""
_MOST_OPS: Final = 3
"""Ops that a message names."""


class IdentityRefused(KernelRefused):
    """A build whose id, ops or libraries are not its own in this process.

    Args:
        code: ``ID_FORM``, ``ID_SHADOWS``, ``ID_LOADED``, ``ID_TWICE``, ``OPS_TAKEN`` or ``LIBRARY_LOADED``.
        message: What is taken, and by whom.
        hint: The next step.
    """

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


def check_id(build: KernelBuild) -> None:
    """Refuse an id that is unsafe or taken, before anything of the build is imported.

    Raises:
        IdentityRefused: ``ID_FORM``, ``ID_SHADOWS``, ``ID_LOADED`` or ``OPS_TAKEN``.
    """
    name = build.id
    if not _ID.fullmatch(name):
        raise IdentityRefused("ID_FORM", _words(build, "is not of the form [a-z_][a-z0-9_]*"), hint=_HINT)
    if name in sys.stdlib_module_names or name in sys.builtin_module_names:
        raise IdentityRefused("ID_SHADOWS", _words(build, "is a module of the standard library"), hint=_HINT)
    if PathFinder.find_spec(name) is not None:
        raise IdentityRefused("ID_SHADOWS", _words(build, "is an installed module"), hint=_HINT)
    if name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
        raise IdentityRefused("ID_LOADED", _words(build, f"is already imported from {origin}"), hint=_HINT)
    if find_spec(name) is not None:  # what only a path hook or an editable install finds
        raise IdentityRefused("ID_SHADOWS", _words(build, "is an installed module"), hint=_HINT)
    for namespace in _namespaces(build):
        if operators := _registered_ops(namespace):
            words = f"{len(operators)} ops of namespace {namespace} are registered already"
            message = _words(build, f"cannot be loaded: {words} ({', '.join(operators[:_MOST_OPS])})")
            raise IdentityRefused("OPS_TAKEN", message, hint=_HINT)


def _words(build: KernelBuild, what: str) -> str:
    return f"kernel {build.facts.repo} in {build.folder}: its id {build.id[:_SHOWN]!r} {what}"


def _namespaces(build: KernelBuild) -> list[str]:
    """Return the namespaces of ops that a build states: its id, and what its ``_ops.py`` reads of ``torch.ops``."""
    named = {build.id}
    for file in build.files:
        if file.name.rpartition("/")[2] == OPS_FILE:
            named |= {found.decode() for found in _NAMESPACE.findall((build.folder / file.name).read_bytes())}
    return sorted(named - {"load_library"})


def _registered_ops(namespace: str) -> list[str]:
    torch = importlib.import_module("torch")
    return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{namespace}::")]  # noqa: SLF001
