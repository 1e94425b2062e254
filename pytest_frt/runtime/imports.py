"""Executing verified files, and no other file of their package, under names of their own."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from pytest_frt.errors import CertificateRefused
from pytest_frt.runtime.sources import CodeCopy

PRIVATE_PREFIX: Final = "frt_verified_"
_LOADED: Final[dict[str, ModuleType]] = {}


@dataclass(frozen=True, slots=True)
class _File:
    """A verified copy and the sha256 its bytes have."""

    path: Path
    sha256: str


def execute(copy: CodeCopy, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> ModuleType:
    """Execute an entry's module and what it imports of its own package, all from the verified copies.

    The import statements in the files name the package as installed. While they run, the package is nothing but the
    copies; afterwards its modules are known under a private name made of their digests, so that neither an installed
    module nor another certificate's copy takes their place, or has its place taken.

    Args:
        copy: Verified files.
        around: Entered around the import: the one step that runs what is in the files.

    Returns:
        The entry's module; a second call for the same bytes returns the same module.

    Raises:
        CertificateRefused: ``ROLE_FILE``: a file that is not certified would be imported.
        Exception: whatever executing the files raises; nothing of them is kept.
    """
    listing = "".join(f"{name}\0{digest}\n" for name, digest in sorted(copy.files.items()))
    private = PRIVATE_PREFIX + hashlib.sha256(f"{copy.package}\0{listing}".encode()).hexdigest()[:16]
    key = f"{private}/{copy.main}"
    if key not in _LOADED:
        package = copy.package or private
        files = _files(package, copy)
        with _only(package, files) as loaded, around():
            module = importlib.import_module(_dotted(package, copy.main))
        for name, one in loaded.items():
            _rename(one, private + name.removeprefix(package))
        # What the files import of each other later, inside functions, is found by the private name.
        sys.meta_path.insert(0, _Finder(private, {private + name.removeprefix(package): files[name] for name in files}))
        _LOADED[key] = module
    return _LOADED[key]


def _dotted(package: str, path: str) -> str:
    parts = Path(path).with_suffix("").parts
    return ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _files(package: str, copy: CodeCopy) -> dict[str, _File]:
    return {
        _dotted(package, path): _File(copy.folder / path, sha256)
        for path, sha256 in copy.files.items()
        if path.endswith(".py")
    }


@contextmanager
def _only(package: str, files: dict[str, _File]) -> Iterator[dict[str, ModuleType]]:
    """Make ``package`` consist of ``files`` while the block runs; fill the yielded table with what was imported."""
    parent, _, leaf = package.rpartition(".")
    finder, hidden = _Finder(package, files), _take(package)
    loaded: dict[str, ModuleType] = {}
    with ExitStack() as undo:
        undo.callback(sys.modules.update, hidden)
        for name in _absent_parents(package):
            # The package above is the provider's own code, and certified nowhere: it is not executed.
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = []
            undo.callback(sys.modules.pop, name)
        if (holder := sys.modules.get(parent)) is not None:
            undo.callback(_put_back, holder, leaf, vars(holder).get(leaf))
        sys.meta_path.insert(0, finder)
        undo.callback(sys.meta_path.remove, finder)
        undo.callback(_take, package)
        yield loaded
        loaded.update(_take(package))


def _absent_parents(package: str) -> list[str]:
    parts = package.split(".")[:-1]
    return [name for name in (".".join(parts[: end + 1]) for end in range(len(parts))) if name not in sys.modules]


def _put_back(holder: ModuleType, leaf: str, module: ModuleType | None) -> None:
    vars(holder).pop(leaf, None)
    if module is not None:
        setattr(holder, leaf, module)


def _take(package: str) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == package or name.startswith(f"{package}.")]
    return {name: sys.modules.pop(name) for name in names}


def _rename(module: ModuleType, name: str) -> None:
    # A compiler looks globals up by the name that a module gives itself.
    module.__name__ = name
    if module.__spec__ is not None:
        module.__spec__.name = name
        module.__package__ = module.__spec__.parent
    sys.modules[name] = module


class _Finder(MetaPathFinder):
    """Finds the verified files of one package and refuses every other name below it."""

    def __init__(self, package: str, files: dict[str, _File]) -> None:
        self._package, self._files = package, files

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a verified file or of a folder of them; None for names outside the package."""
        if fullname != self._package and not fullname.startswith(f"{self._package}."):
            return None
        inner = any(name.startswith(f"{fullname}.") for name in self._files)
        file = self._files.get(fullname)
        if file is not None:
            locations: list[str] | None = [] if inner else None
            loader = _Verified(file)
            return spec_from_file_location(fullname, file.path, loader=loader, submodule_search_locations=locations)
        if inner or fullname == self._package:
            return ModuleSpec(fullname, None, is_package=True)
        raise CertificateRefused("ROLE_FILE", f"{fullname} would be imported, and is not among the certified files")


class _Verified(ExecutionLoader):
    """Compiles the copy's source, hashed once more as it is read: bytecode is neither read nor written."""

    def __init__(self, file: _File) -> None:
        self._file = file

    # The import system calls these and tells them the name of the module, which the file decides.
    def get_filename(self, fullname: str) -> str:  # noqa: ARG002
        return str(self._file.path)

    def get_source(self, fullname: str) -> str:
        data = self._file.path.read_bytes()
        if (found := hashlib.sha256(data).hexdigest()) != self._file.sha256:
            message = f"{fullname} has sha256 {found} now, copied was {self._file.sha256}"
            raise CertificateRefused("ROLE_FILE", message)
        return data.decode("utf-8")
