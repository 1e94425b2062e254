"""What impl code must leave alone in the process it is loaded into: functions, classes and settings others share.

An impl computes one seat. One that replaces a function of torch, a method of a host class or a setting of the process
changes what the rest of the model does, for everyone who attaches it.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from pytest_frt.seat.module import CALL_HOOKS

CHECK: Final = "globals_are_untouched"
"""Name of the contract check that rests on it."""
WATCHED: Final = (
    "builtins",
    "copy",
    "gc",
    "math",
    "os",
    "safetensors.torch",
    "time",
    "torch",
    "torch.cuda",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
)
"""Modules whose functions everything else calls, beside all of our own."""
OWN: Final = f"{__name__.partition('.')[0]}."
COMPILED: Final = ("__compiled_fn_", "__resume_at_", "__import_", "__builtins_dict__")
"""Starts of the names that torch.compile leaves in a module's globals, and takes away when it is reset."""
_GONE: Final[tuple[object, ...]] = ()


Marks = tuple[object, ...]
"""A function with its code and defaults, which can be replaced under it; of anything else that is called, itself."""


def _marks(value: object) -> Marks:
    function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    code = (function.__code__, function.__defaults__) if isinstance(function, FunctionType) else ()
    return (value, *code)


def _functions(owner: object) -> dict[str, Marks]:
    found = vars(owner).items()
    return {name: _marks(value) for name, value in found if callable(value) or isinstance(value, classmethod)}


def _same(before: Marks, now: Marks) -> bool:
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))


def _own_classes(modules: Iterable[object]) -> Iterator[tuple[str, type]]:
    """Yield the classes that our own modules define: what measures an impl lies in their methods."""
    for module in modules:
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__.startswith(OWN):
                yield f"{value.__module__}.{value.__qualname__}", value


def _settings() -> dict[str, object]:
    hooks = {f"{torch_module.__name__}.{name}": len(getattr(torch_module, f"_global{name}")) for name in CALL_HOOKS}
    return {
        "torch.get_num_threads": torch.get_num_threads(),
        "torch.get_default_dtype": torch.get_default_dtype(),
        "torch.get_float32_matmul_precision": torch.get_float32_matmul_precision(),
        "torch.are_deterministic_algorithms_enabled": torch.are_deterministic_algorithms_enabled(),
        "torch.is_grad_enabled": torch.is_grad_enabled(),
        "torch.get_default_device": torch.get_default_device(),
        "torch function modes": torch._C._len_torch_function_stack(),  # noqa: SLF001 (it has no public name)
        "torch dispatch modes": torch._C._len_torch_dispatch_stack(),  # noqa: SLF001 (it has no public name)
        "torch.backends.quantized.engine": torch.backends.quantized.engine,
        "gc.isenabled": gc.isenabled(),
        "gc.callbacks": len(gc.callbacks),
        "gc.get_threshold": gc.get_threshold(),
        "os.sched_getaffinity": os.sched_getaffinity(0),
        "sys.gettrace": sys.gettrace(),
        "sys.getprofile": sys.getprofile(),
        "sys.path": tuple(sys.path),
        "os.environ": dict(os.environ),
        "threads of Python": {thread.name for thread in threading.enumerate()},
        **hooks,
    }


def _host(model: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield the classes of a host's modules and the modules themselves."""
    classes = {one for module in model.modules() for one in type(module).__mro__ if one is not object}
    yield from ((f"{one.__module__}.{one.__qualname__}", one) for one in classes)
    yield from ((f"module {path or 'itself'}", module) for path, module in model.named_modules())


def _hooks(module: object) -> int:
    return sum(len(value) for name, value in vars(module).items() if name.endswith("_hooks") and value)


class Census:
    """Taken before impl code is loaded; :meth:`changed` then names what is no longer as it was.

    Args:
        model: The host.
    """

    def __init__(self, model: nn.Module) -> None:
        shared = [*WATCHED, *(name for name in sys.modules if name.startswith(OWN))]
        self._shared: dict[str, object] = {name: sys.modules[name] for name in shared if name in sys.modules}
        self._loaded = dict(self._shared)
        self._shared |= {"torch.Tensor": torch.Tensor, "torch.cuda.Event": torch.cuda.Event}
        self._shared |= dict(_own_classes(module for name, module in self._loaded.items() if name.startswith(OWN)))
        self._host: dict[str, Any] = dict(_host(model))
        self._before = {name: _functions(owner) for name, owner in {**self._shared, **self._host}.items()}
        self._hooks = {name: _hooks(owner) for name, owner in self._host.items() if isinstance(owner, nn.Module)}
        self._settings = _settings()

    def changed(self) -> tuple[str, ...]:
        """Return the names of functions, hooks and settings that were replaced, added or taken away."""
        changed = (self._functions_changed(), self._modules_changed(), self._hooks_changed(), self._settings_changed())
        return tuple(sorted({name for names in changed for name in names}))

    def _functions_changed(self) -> Iterator[str]:
        for name, owner in {**self._shared, **self._host}.items():
            before, now = self._before[name], _functions(owner)
            # A library may load parts of itself late; a class or a module of the host does not grow.
            for function in {**before, **({} if isinstance(owner, ModuleType) else now)}:
                if function not in now and function.startswith(COMPILED):
                    continue
                if not _same(before.get(function, _GONE), now.get(function, _GONE)):
                    yield f"{name}.{function}"

    def _modules_changed(self) -> Iterator[str]:
        return (f"sys.modules: {name}" for name, module in self._loaded.items() if sys.modules.get(name) is not module)

    def _hooks_changed(self) -> Iterator[str]:
        return (f"{name}: hooks" for name, count in self._hooks.items() if _hooks(self._host[name]) != count)

    def _settings_changed(self) -> Iterator[str]:
        now = _settings()
        return (name for name, value in self._settings.items() if now[name] != value)
