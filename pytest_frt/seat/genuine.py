"""Whether a live module still is what its class's source file says: read from objects and source, executing neither.

A method counts as the source's own when its code equals what compiling that file gives: names, file names and line
numbers can be copied, instructions cannot be copied without being the same method.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, MappingProxyType
from typing import Final

from torch import nn

from pytest_frt.seat import tree
from pytest_frt.seat.hostfacts import source_file

CALLS: Final = ("forward", "__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "__getattr__")
"""Methods that a call goes through; one that a class's source does not define is never the class's own."""

HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""Hooks that a call runs, by their name in a module."""

SOURCES_KEPT: Final = 64
"""Source files remembered as compiled; a seat's modules come from a handful."""


def why_not_itself(module: nn.Module) -> str:
    """Return why an instance does not do what its class does, or another layer than it seems to; empty when it does."""
    for name in vars(module):
        if inspect.isroutine(inspect.getattr_static(type(module), name, None)):
            return f"its {name} is patched on the instance"
    for name in HOOKS:
        if vars(module).get(name):
            return f"it has hooks ({name})"
    return tree.why_not_linear_call(module) if isinstance(module, nn.Linear) else ""


def why_not_its_source(kind: type[nn.Module]) -> str:
    """Return why a module class does not do what its source file says; empty when it does.

    A class is asked with its bases up to ``nn.Module``. A class that was made in a function is not looked up by name.
    """
    for base in kind.__mro__:
        if base is nn.Module or not issubclass(base, nn.Module):
            continue
        if why := _why_not_named(base) or _why_other_code(base):
            return why
    return ""


def _why_not_named(kind: type) -> str:
    """Return why the name of a class belongs to another class; a name that nothing has is no reason."""
    spot: object = sys.modules.get(str(kind.__module__))
    for part in kind.__qualname__.split("."):
        spot = vars(spot).get(part) if isinstance(spot, type) or inspect.ismodule(spot) else None
    if isinstance(spot, type) and spot is not kind:
        return f"another class is called {kind.__module__}.{kind.__qualname__}"
    return ""


def _why_other_code(kind: type[nn.Module]) -> str:
    path = source_file(kind)
    if path is None:
        return f"{kind.__qualname__} has no source file"
    written = _methods(path.read_bytes())
    for name, value in vars(kind).items():
        expected = written.get(f"{kind.__qualname__}.{name}")
        if expected is None:
            if name in CALLS:
                return f"{name} of {kind.__qualname__} is not defined in its source"
            continue
        if not any(_is_written(value, code, decorators, kind) for code, decorators in expected):
            return f"{name} of {kind.__qualname__} is not what its source defines"
    return ""


def _is_written(value: object, code: CodeType, decorators: int, kind: type) -> bool:
    """Return whether a class attribute is the method of that code, wrapped by its decorators and its bases alone."""
    if decorators and not isinstance(value, FunctionType | property | staticmethod | classmethod):
        return True  # a decorator may make an object of a method
    for function in _functions(value):
        at, wrappers = function, 0
        while hasattr(at, "__wrapped__"):
            wrappers += not _is_of_a_base(at, kind)
            at = at.__wrapped__
        if isinstance(at, FunctionType) and at.__code__ == code and wrappers <= decorators:
            return True
    return False


def _is_of_a_base(function: object, kind: type) -> bool:
    """Return whether a function stands in the source of a base: ``__init_subclass__`` may wrap what a class defines."""
    if not isinstance(function, FunctionType):
        return False
    files = (source_file(base) for base in kind.__mro__[1:] if base is not object)
    written = (_methods(path.read_bytes()) for path in files if path is not None)
    same = (found for methods in written for found in methods.get(function.__code__.co_qualname, ()))
    return any(code == function.__code__ for code, _ in same)


def _functions(value: object) -> Iterator[object]:
    """Yield the functions that a class attribute runs."""
    match value:
        case property():
            yield from (one for one in (value.fget, value.fset, value.fdel) if one is not None)
        case staticmethod() | classmethod():
            yield value.__func__
        case _:
            yield value


@lru_cache(maxsize=SOURCES_KEPT)
def _methods(source: bytes) -> Mapping[str, tuple[tuple[CodeType, int], ...]]:
    """Return, by qualified name, the code of every function of a file and how many decorators stand above it."""
    parsed = ast.parse(source)
    nodes = (node for node in ast.walk(parsed) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    # The first line of code is that of the first decorator.
    lines = {
        (node.name, min((one.lineno for one in node.decorator_list), default=node.lineno)): len(node.decorator_list)
        for node in nodes
    }
    found: dict[str, tuple[tuple[CodeType, int], ...]] = {}
    waiting = [compile(source, "<certified>", "exec", dont_inherit=True)]
    while waiting:
        for code in waiting.pop().co_consts:
            if isinstance(code, CodeType):
                waiting.append(code)
                wrappers = lines.get((code.co_name, code.co_firstlineno), 0)
                found[code.co_qualname] = (*found.get(code.co_qualname, ()), (code, wrappers))
    return MappingProxyType(found)
