"""Locks on the modules above a seat: converting or loading a seated model is refused before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from types import MethodType
from typing import Any, Final

from torch import nn

from pytest_frt.seat.module import SeatModule


def seats_below(module: nn.Module) -> Iterator[SeatModule]:
    """Yield the seat modules in the tree of ``module``, each once."""
    return (one for one in module.modules() if isinstance(one, SeatModule))


def _apply(self: nn.Module, fn: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (torch's signature)
    """Stand in for ``Module._apply`` of one module: ask every seat below before the first tensor is converted."""
    for seat in seats_below(self):
        if not seat.frt_keeps(fn):
            seat.frt_refuse_move()
    return type(self)._apply(self, fn, *args, **kwargs)  # noqa: SLF001 (the method this one stands in for)


def _load_from_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (torch's signature)
    """Stand in for ``Module._load_from_state_dict`` of one module: refuse before the first tensor is loaded."""
    for seat in seats_below(self):
        seat.frt_refuse_load()
    return type(self)._load_from_state_dict(self, *args, **kwargs)  # noqa: SLF001 (the method this one stands in for)


# A bound method pickles as the name of the method it shadows: a copy or a pickle of a locked module gets torch's own.
LOCKS: Final = (_apply, _load_from_state_dict)


def lock(module: nn.Module) -> None:
    """Lock one module above a seat. Locking a locked module changes nothing."""
    for method in LOCKS:
        module.__dict__.setdefault(method.__name__, MethodType(method, module))


def unlock(module: nn.Module) -> None:
    """Take the locks off a module that has no seat below it any more."""
    if next(seats_below(module), None) is not None:
        return
    for method in LOCKS:
        bound = module.__dict__.get(method.__name__)
        if isinstance(bound, MethodType) and bound.__func__ is method:
            del module.__dict__[method.__name__]
