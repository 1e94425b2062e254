"""Executing one entry file from its source bytes, under a name of its own. Workers and the runtime do it."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from pytest_frt.errors import SpecError
from pytest_frt.spec.digest import bytes_digest


class _FromSource(SourceFileLoader):
    """Compiles the bytes it was given: a stale or planted bytecode file is never executed."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 (importlib's signature)
        return compile(self._source, self.path, "exec", dont_inherit=True)


def load_file(file: str | Path, *, package: str = "", source: bytes | None = None) -> ModuleType:
    """Execute a Python file once and return its module.

    Args:
        file: The file.
        package: Dotted package it belongs to, for relative imports; without one the module gets a name of its own,
            made of the digest of path and bytes.
        source: Bytes to execute instead of reading ``file`` again, when they were verified before.

    Returns:
        The module; a second call for the same path and bytes returns the same object.

    Raises:
        SpecError: the file cannot be read, or its package name is taken by another file.
        Exception: whatever executing the file raises; the module is then not kept.
    """
    path = Path(file).resolve()
    try:
        code = path.read_bytes() if source is None else source
    except OSError as fault:
        raise SpecError(f"{path}: cannot be read: {fault.strerror}") from fault
    identity = bytes_digest(b"\0".join((str(path).encode(), code)))
    name = f"{package}.{path.stem}" if package else f"frt_entry_{identity[:16]}_{path.stem}"
    present = sys.modules.get(name)
    if present is not None:
        if getattr(present, "__file__", None) != str(path):
            raise SpecError(f"{path}: the module name {name} is taken by {getattr(present, '__file__', None)}")
        return present
    spec = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path), code))
    if spec is None or spec.loader is None:
        raise SpecError(f"{path}: is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with ExitStack() as undo:
        undo.callback(sys.modules.pop, name, None)
        spec.loader.exec_module(module)
        undo.pop_all()
    return module
