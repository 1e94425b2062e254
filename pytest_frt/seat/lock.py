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
    return _before(self, "_apply")(fn, *args, **kwargs)


def _load_from_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (torch's signature)
    """Stand in for ``Module._load_from_state_dict`` of one module: refuse before the first tensor is loaded."""
    for seat in _HELD.get(self, ()):
        seat.frt_refuse_load()
    return _before(self, "_load_from_state_dict")(*args, **kwargs)


_OWN: Final = "_frt_own_methods"
"""Attribute of a locked module that keeps what it had of its own under the names of the lock's methods, if anything.

In the module, since such a method is bound to it: anything else that held it would keep the module alive."""


def _before(module: nn.Module, name: str) -> Any:  # noqa: ANN401 (torch's signature)
    """Return the method that a lock stands in for, bound: the instance's own, or its class's."""
    own = vars(module).get(_OWN, {})
    return own[name] if name in own else getattr(type(module), name).__get__(module)


# A bound method pickles as the name of the method it shadows: a copy or a pickle of a locked module gets torch's own.
_METHODS: Final = (_apply, _load_from_state_dict)


def lock(module: nn.Module, seats: Iterable[SeatModule]) -> None:
    """Lock a module for seats that lie below it."""
    if module not in _HELD:
        own = vars(module)
        if before := {method.__name__: own[method.__name__] for method in _METHODS if method.__name__ in own}:
            own[_OWN] = before
        own.update({method.__name__: MethodType(method, module) for method in _METHODS})
    _HELD.setdefault(module, WeakSet()).update(seats)


def unlock(module: nn.Module, seats: Iterable[SeatModule]) -> None:
    """Take back what :func:`lock` did for these seats; the last one takes the lock off. A second call does nothing.

    A method that the module had of its own returns; one that somebody set over the lock stays.
    """
    held = _HELD.get(module)
    if held is None:
        return
    held.difference_update(seats)
    if held:
        return
    del _HELD[module]
    own = vars(module)
    before = own.pop(_OWN, {})
    for method in _METHODS:
        if own.get(method.__name__) == MethodType(method, module):
            del own[method.__name__]
            own.update({name: value for name, value in before.items() if name == method.__name__})
