"""Locks on the modules above a seat: converting or loading a seated model is refused before it begins."""

from __future__ import annotations

from collections.abc import Iterable
from types import MethodType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from torch import nn

from pytest_frt.seat.module import SeatModule

_HELD: Final[WeakKeyDictionary[nn.Module, WeakSet[SeatModule]]] = WeakKeyDictionary()
"""Locked module to the seats below it, seated or switched off. A copy or a pickle of a module is not in it.

Weak on both sides: a seat knows the modules above it, so that a model dropped while attached could not be freed."""


def _apply(self: nn.Module, fn: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (torch's signature)
    """Stand in for ``Module._apply`` of one module: ask every seat below before the first tensor is converted."""
    for seat in _HELD.get(self, ()):
        if not seat.frt_keeps(fn):
            seat.frt_refuse_move()
    return type(self)._apply(self, fn, *args, **kwargs)  # noqa: SLF001 (the method this one stands in for)


def _load_from_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (torch's signature)
    """Stand in for ``Module._load_from_state_dict`` of one module: refuse before the first tensor is loaded."""
    for seat in _HELD.get(self, ()):
        seat.frt_refuse_load()
    return type(self)._load_from_state_dict(self, *args, **kwargs)  # noqa: SLF001 (the method this one stands in for)


# A bound method pickles as the name of the method it shadows: a copy or a pickle of a locked module gets torch's own.
_METHODS: Final = (_apply, _load_from_state_dict)


def lock(module: nn.Module, seats: Iterable[SeatModule]) -> None:
    """Lock a module for seats that lie below it."""
    _HELD.setdefault(module, WeakSet()).update(seats)
    for method in _METHODS:
        module.__dict__.setdefault(method.__name__, MethodType(method, module))


def unlock(module: nn.Module, seats: Iterable[SeatModule]) -> None:
    """Take back what :func:`lock` did for these seats; the last one takes the lock off. A second call does nothing."""
    held = _HELD.get(module)
    if held is None:
        return
    held.difference_update(seats)
    if not held:
        del _HELD[module]
        for method in _METHODS:
            del module.__dict__[method.__name__]
