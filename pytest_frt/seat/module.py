"""What sits at a seat: a plain module that shares the host module's tensors, children and hooks."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Self

from torch import Tensor, nn
from torch._C import _is_any_autocast_enabled as autocast_anywhere
from torch._C import is_grad_enabled
from torch.compiler import is_dynamo_compiling
from torch.nn.modules import module as torch_module

from pytest_frt.errors import SwapRefused
from pytest_frt.seat.guard import Guard, input_names, inputs_of
from pytest_frt.seat.ledger import Admission

SHARED: Final = tuple(name for name, value in vars(nn.Module()).items() if isinstance(value, dict | set))
"""The containers of a module: parameters, buffers, children and every kind of hook."""

CALL_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Hooks that a call runs, by their name in a module; torch's global ones have the same names after ``_global``."""


class SeatModule(nn.Module):
    """A module in the host's tree that stands in for a host module.

    It shares the host module's own dictionaries, so that names, tensors, state and hooks are the host's by
    construction, and hands every other attribute on to the host module. It never derives from a host class, so that
    nothing that looks for classes (kernel mappings, initialisers) takes it for one.

    Args:
        host: The module it stands in for.
        guard: Admission and counts of the seat.
    """

    def __init__(self, host: nn.Module, guard: Guard) -> None:
        # nn.Module.__init__ would make containers of its own; here every one of them is the host's.
        own = self.__dict__
        for name in SHARED:
            own[name] = host.__dict__[name]
        own["_frt_host"] = host
        own["_frt_guard"] = guard
        own["_frt_names"] = input_names(host, 1 + len(guard.form.sides))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the host module has)
        """Return the host module's attribute: tensors, children, configuration, methods."""
        host = self.__dict__.get("_frt_host")
        if host is None:
            raise AttributeError(name)
        return getattr(host, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set a plain attribute on the host module; refuse tensors and modules: the impl packed the old ones."""
        if isinstance(value, Tensor | nn.Module):
            self._frt_refuse(f"its {name} cannot be replaced")
        setattr(self._frt_host, name, value)
        if name == "training":
            self._frt_guard.mode_changed()

    def __delattr__(self, name: str) -> None:
        """Refuse: the host module keeps what it has while it is seated."""
        self._frt_refuse(f"its {name} cannot be deleted")

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
        """Return a copy of the host module: a copied model is the plain host, bit for bit."""
        twin: nn.Module = copy.deepcopy(self._frt_host, memo)
        return twin

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:  # noqa: ANN401 (object's own signature)
        """Pickle the host module, in a form that loads where this project is not installed."""
        return operator.getitem, ((self._frt_host,), 0)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (torch's overloads)
        """Return the host module's state, in its own format version; refuse once its tensors were freed."""
        if self._frt_guard.final:
            self._frt_refuse("its originals were freed", "detach, if they were spilled, or load the model again")
        return self._frt_host.state_dict(*args, **kwargs)

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002 (torch's signature)
        """Switch the host module; in training mode every call runs it exactly."""
        self._frt_host.train(mode)
        self._frt_guard.mode_changed()
        return self

    def compile(self, *_args: Any, **_kwargs: Any) -> NoReturn:  # noqa: ANN401 (torch's signature)
        """Refuse: the compiled call would outlive the seat."""
        self._frt_refuse("it cannot be compiled in place", "compile the model, or torch.compile(module)")

    @property
    def frt_seat(self) -> str:
        """Id of the seat."""
        return str(self._frt_guard.counts.seat)

    def extra_repr(self) -> str:
        """Return seat, band and host class."""
        low, high = self._frt_guard.form.rows
        return f"seat={self.frt_seat}, rows={low} to {high}, host={type(self._frt_host).__name__}"

    def frt_keeps(self, fn: Callable[[Tensor], Tensor]) -> bool:
        """Return whether a conversion leaves the packed tensors as they are, tried on an empty piece of each."""
        pieces = (one.tensor.detach().reshape(-1)[:0] for one in self._frt_guard.held)
        return all(fn(piece) is piece for piece in pieces)

    def frt_refuse_move(self) -> NoReturn:
        """Refuse a change of dtype, device or storage."""
        self._frt_refuse("it cannot be moved or converted")

    def frt_refuse_load(self) -> NoReturn:
        """Refuse new weights."""
        self._frt_refuse("weights cannot be loaded into it")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # noqa: FBT001, FBT002
        if not self.frt_keeps(fn):
            self.frt_refuse_move()
        self._frt_host._apply(fn, recurse)  # noqa: SLF001 (the method this one stands in for)
        return self

    def _load_from_state_dict(self, *_args: Any, **_kwargs: Any) -> NoReturn:  # noqa: ANN401 (torch's signature)
        self.frt_refuse_load()

    def _frt_refuse(self, what: str, hint: str = "detach first") -> NoReturn:
        raise SwapRefused(f"seat {self.frt_seat} is attached: {what}", hint=hint)

    def _frt_run_host(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401
        # Not through __call__: the hooks are shared and this call has run them already.
        return self._frt_host.forward(*args, **kwargs)


class AnsweringSeat(SeatModule):
    """A seat module that takes the structure's inputs: the impl answers admitted calls, the host all others.

    A host module takes them as its first arguments, in the structure's order, by position or by keyword.

    Args:
        host: The module it stands in for.
        guard: Admission and counts of the seat.
        run: Computes the answer to an admitted call.
        clear: Called before the host answers.
    """

    def __init__(
        self, host: nn.Module, guard: Guard, run: Callable[..., Any], clear: Callable[[], None] | None = None
    ) -> None:
        super().__init__(host, guard)
        own = self.__dict__
        own["_frt_run"] = run
        own["_frt_clear"] = clear
        hooks = [own[name] for name in CALL_HOOKS] + [getattr(torch_module, f"_global{name}") for name in CALL_HOOKS]
        form, counts = guard.form, guard.counts
        own["_frt_fixed"] = (form.dtype, form.device, guard.shapes, counts, counts.eager, run, tuple(hooks))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (a module takes what its host takes)
        """Answer a call. The short check admits what the long one has admitted before."""
        if is_dynamo_compiling():
            return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]
        if self._frt_guard.quick and len(args) == 1 and not kwargs:
            x = args[0]
            dtype, device, shapes, counts, eager, run, hooks = self._frt_fixed
            if (
                type(x) is Tensor
                and x.shape in shapes
                and x.dtype is dtype
                and x.device == device
                and not is_grad_enabled()
                and not autocast_anywhere()
                and not any(hooks)
            ):
                eager[0] += 1
                counts.consecutive = 0
                return run(x)
        return super().__call__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Examine a call, count it, and let the impl or the host answer."""
        guard: Guard = self._frt_guard
        x, *sides = inputs_of(args, kwargs, self._frt_names)
        why = guard.examine(x, tuple(sides))
        if is_dynamo_compiling():
            guard.traced(why, x)
        elif why is not Admission.SERVED:
            guard.missed(why, x)
        elif not guard.serves(x):
            return self._frt_run_host(args, kwargs)
        if why is Admission.SERVED:
            return self._frt_run(x, *sides)
        if self._frt_clear is not None:
            self._frt_clear()
        return self._frt_run_host(args, kwargs)
