"""Importing a package that asks for a newer Python, or for packages that are not here and that it never uses.

Nothing is written to disk, and what is not needed is not done: sources that compile are taken as they are, and
packages that are installed are imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any, Final

from pytest_frt.sdk import FrtError

_CLASS: Final = re.compile(r"^([ \t]*)class (\w+)\[([^\[\]]+)\](?:\((.*)\))?:", re.MULTILINE)
_FUNCTION: Final = re.compile(r"^([ \t]*(?:async )?def \w+)\[([^\[\]]+)\]\(", re.MULTILINE)
_ALIAS: Final = re.compile(r"^([ \t]*)type (\w+) = ", re.MULTILINE)
_FUTURE: Final = re.compile(r"^from __future__ import .*\n", re.MULTILINE)
_FIRST_IMPORT: Final = re.compile(r"^(?:import|from) ", re.MULTILINE)


def without_type_parameters(source: str) -> str:
    """Return a module with the type parameters of Python 3.12 written as earlier releases have them.

    Args:
        source: Text of a module: its parameters may have bounds, which are dropped, but no brackets of their own.
    """
    names: set[str] = set()

    def listed(parameters: str) -> list[str]:
        found = [part.partition(":")[0].strip() for part in parameters.split(",")]
        names.update(found)
        return found

    def generic(match: re.Match[str]) -> str:
        indent, name, parameters, bases = match.groups()
        generic_base = f"_Generic[{', '.join(listed(parameters))}]"
        return f"{indent}class {name}({', '.join(filter(None, (bases, generic_base)))}):"

    def plain(match: re.Match[str]) -> str:
        listed(match[2])
        return f"{match[1]}("

    text = _ALIAS.sub(r"\1\2 = ", _FUNCTION.sub(plain, _CLASS.sub(generic, source)))
    if not names:
        return text
    head = "from typing import Generic as _Generic, TypeVar as _TypeVar\n"
    head += "".join(f"{name} = _TypeVar({name!r})\n" for name in sorted(names))
    future, first = [*_FUTURE.finditer(text)], _FIRST_IMPORT.search(text)
    at = future[-1].end() if future else first.start() if first else 0
    return text[:at] + head + text[at:]


class _Sources(importlib.machinery.SourceFileLoader):
    """Reads a module as always; where its syntax is too new for this Python, reads it without type parameters."""

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            return super().get_code(fullname)
        except SyntaxError:
            text = without_type_parameters(self.get_data(self.path).decode())
            return compile(text, self.path, "exec", dont_inherit=True)


class _Opened(importlib.machinery.SourceFileLoader):
    """Makes a package whose parts can be imported, without running its own ``__init__``."""

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002 (the loader protocol)
        return compile("", self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of one package where they always are, and gives them our loaders."""

    def __init__(self, package: str, opened: Collection[str]) -> None:
        self._package, self._opened = package, opened

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{self._package}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            kind = _Opened if fullname in self._opened else _Sources
            spec.loader = kind(spec.loader.name, spec.loader.path)
        return spec


class _Placeholder(ModuleType):
    """Stands where a package is absent: its names can be imported and inherited from, but not used."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"

        def refuse(_kind: type, *_args: Any, **_settings: Any) -> None:  # noqa: ANN401 (whatever it is called with)
            raise FrtError(
                f"{whole} was used, and {whole.partition('.')[0]} is not installed", hint="install that package"
            )

        return type(name, (), {"__new__": refuse})


class _Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for packages that are absent."""

    def __init__(self, absent: Collection[str]) -> None:
        self._absent = absent

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 (the finder protocol)
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in self._absent:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        placeholder = _Placeholder(spec.name)
        placeholder.__path__ = []
        return placeholder

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it has no code."""


@contextmanager
def importing(package: str, *, opened: Collection[str], unused: Collection[str]) -> Iterator[None]:
    """Let parts of a package be imported inside the block.

    Afterwards the placeholders are gone, and the parts have no ``__spec__``: they cannot be imported by name in a
    process that lacks these hooks, which is what a module without one says of itself.

    Args:
        package: Top-level name; it is imported itself before the block.
        opened: Packages below it whose parts are wanted, and not what their ``__init__`` imports.
        unused: Packages it imports and does not use in what is wanted; where one is absent a placeholder stands in.
    """
    absent = [name for name in unused if name not in sys.modules and find_spec(name) is None]
    finders = [_Finder(package, opened), _Placeholders(absent)]
    before = set(sys.modules)
    sys.meta_path[:0] = finders
    try:
        yield
    finally:
        for finder in finders:
            sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in absent:
                del sys.modules[name]
            elif name.startswith(f"{package}."):
                sys.modules[name].__spec__ = None
