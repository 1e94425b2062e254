"""Reading what a host passes between its modules: hooks that see keyword calls and are removed on every way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

Before = Callable[[tuple[Tensor, ...], bool], None]
"""Called before a module runs, with the tensors of the call in order and whether the first came by keyword."""
After = Callable[[object], None]
"""Called after a module ran, with what it returned."""


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return the tensors of a call, positional before keyword."""
    return tuple(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))


def _pre_hook(watcher: Before) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], None]:
    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        watcher(tensors_of(args, kwargs), not any(isinstance(value, Tensor) for value in args))

    return hook


def _hook(watcher: After) -> Callable[[nn.Module, tuple[Any, ...], object], None]:
    def hook(_module: nn.Module, _args: tuple[Any, ...], output: object) -> None:
        watcher(output)

    return hook


@contextmanager
def watching(
    model: nn.Module, before: Iterable[tuple[str, Before]], after: Iterable[tuple[str, After]] = ()
) -> Iterator[None]:
    """Call watchers when their modules run, while the block does.

    Args:
        model: The host.
        before: Dotted module paths, each with what is called before the module runs.
        after: The same, called after.

    Raises:
        AttributeError: the host has no module at a path.
    """
    with ExitStack() as undo:
        for path, early in before:
            handle = model.get_submodule(path).register_forward_pre_hook(_pre_hook(early), with_kwargs=True)
            undo.callback(handle.remove)
        for path, late in after:
            undo.callback(model.get_submodule(path).register_forward_hook(_hook(late)).remove)
        yield
