"""The quick way to a killed mutant: tests collected once, a fork per mutant, the code of one function exchanged in it.

What survives here proves nothing yet: a value computed while tests are collected is that of the unchanged module.
"""

from __future__ import annotations

import ast
import functools
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import pytest
from mutation_operators import Mutant

POLL_S: Final = 0.005


def enclosing(tree: ast.Module, line: int) -> str:
    """Return the qualified name of the outermost function around a line, empty outside of any."""
    waiting: list[tuple[str, ast.stmt]] = [("", node) for node in tree.body]
    for prefix, node in waiting:
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return prefix + node.name
        if isinstance(node, ast.ClassDef):
            waiting += [(f"{prefix}{node.name}.", inner) for inner in node.body]
    return ""


def _function(space: Mapping[str, Any], name: str) -> FunctionType:
    head, _, rest = name.partition(".")
    found = space[head]
    if rest:
        return _function(vars(found), rest)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if isinstance(found, functools._lru_cache_wrapper):  # noqa: SLF001 - the one name that its type has
        found.cache_clear()
        found = found.__wrapped__
    if not isinstance(found, FunctionType):
        raise TypeError(f"{name} is a {type(found).__name__}: its code cannot be exchanged")
    return found


def exchange(module: str, path: Path, mutant: Mutant) -> None:
    """Give the function around the mutant's line the changed code and defaults, whoever holds it already."""
    name = enclosing(ast.parse(path.read_text(encoding="utf-8")), mutant.line)
    space: dict[str, Any] = {"__name__": module, "__file__": str(path)}
    exec(compile(mutant.source, str(path), "exec"), space)  # noqa: S102 - that is the purpose
    old, new = _function(vars(sys.modules[module]), name), _function(space, name)
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__


def forked(work: Callable[[], int], limit_s: float) -> tuple[int | None, float]:
    """Run ``work`` in a fork of this process, silently.

    Returns:
        Its exit code, 1 where it raised, None when the time limit ended it; and the seconds it took.
    """
    begun = time.monotonic()
    if not (child := os.fork()):
        code = 1
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(nothing, descriptor)
            code = work()
        finally:
            os._exit(code)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        seconds = time.monotonic() - begun
        if done:
            return os.waitstatus_to_exitcode(status), seconds
        if seconds > limit_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, seconds
        time.sleep(POLL_S)


class Loop:
    """A pytest plugin that runs the collected tests once per mutant instead of once.

    Args:
        module: Dotted name of the changed module.
        path: Its file.
        wanted: The mutants, each inside a function.
        limit: From the seconds that the unchanged module takes to the time limit of one.

    Attributes:
        found: Of the unchanged module, then per mutant: exit code (None: time limit) and seconds.
    """

    def __init__(self, module: str, path: Path, wanted: Sequence[Mutant], limit: Callable[[float], float]) -> None:
        self._module, self._path, self._wanted, self._limit = module, path, wanted, limit
        self.found: list[tuple[int | None, float]] = []

    def _one(self, session: pytest.Session, mutant: Mutant | None) -> int:
        if mutant:
            exchange(self._module, self._path, mutant)
        importlib.import_module("_pytest.main").pytest_runtestloop(session)
        return int(session.testsfailed > 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork once unchanged, then for every mutant."""
        self.found.append(forked(functools.partial(self._one, session, None), float("inf")))
        limit_s = self._limit(self.found[0][1])
        for mutant in self._wanted if self.found[0][0] == 0 else ():
            self.found.append(forked(functools.partial(self._one, session, mutant), limit_s))
        return True
