"""Admission: which calls a bound impl may answer. Every other call runs the host exactly, and is counted."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
from torch import Tensor, is_grad_enabled, nn
from torch.compiler import is_dynamo_compiling

from pytest_frt.errors import GuardRefused, SwapRefused
from pytest_frt.seat.ledger import Admission, Counts

SELF_DETACH_AFTER: Final = 32
"""Consecutive fallbacks after which a seat is given back for good: a workload that never fits pays no guard."""

SHAPES_KEPT: Final = 256
"""Admitted input shapes remembered per seat; a workload with more pays the long check, not memory."""


class SeatWarning(UserWarning):
    """A seat ran the host in place of its impl for the first time for this reason, or was given back."""


@dataclass(frozen=True, slots=True)
class Form:
    """The calls an impl was bound for.

    Attributes:
        dtype: Input dtype.
        width: Size of the input's last axis.
        device: Input device.
        rows: Inclusive band of the product of the leading axes.
        sides: Size of the last axis of every further input, each of one row.
        axes: Axes of the input, 0 for any number.
    """

    dtype: torch.dtype
    width: int
    device: torch.device
    rows: tuple[int, int]
    sides: tuple[int, ...] = ()
    axes: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """A host tensor an impl packed, as it was then.

    Attributes:
        owner: Dictionary of the host module that holds it.
        name: Its key there.
        tensor: The tensor.
        version: Its in-place version counter.
    """

    owner: Mapping[str, Tensor | None]
    name: str
    tensor: Tensor
    version: int

    @classmethod
    def of(cls, model: nn.Module, dotted: str) -> Held:
        """Hold ``dotted`` (a parameter or buffer name) of ``model``.

        Raises:
            SwapRefused: the model has no such tensor.
        """
        path, _, name = dotted.rpartition(".")
        try:
            module = model.get_submodule(path)
        except AttributeError as fault:
            raise SwapRefused(f"the host has no tensor {dotted!r}: {fault}", hint="discover its seats again") from fault
        owner = module._parameters if name in module._parameters else module._buffers  # noqa: SLF001
        tensor = owner.get(name)
        if tensor is None:
            raise SwapRefused(f"the host has no tensor {dotted!r}", hint="discover its seats again")
        return cls(owner, name, tensor, version_of(tensor))

    @property
    def moved(self) -> bool:
        """True when the host now holds another tensor there, or this one was written to."""
        return self.owner.get(self.name) is not self.tensor or version_of(self.tensor) != self.version


def version_of(tensor: Tensor) -> int:
    """Return the in-place version counter; inference tensors keep none and count as version 0."""
    return 0 if tensor.is_inference() else tensor._version  # noqa: SLF001 (the only name)


def rows_of(x: Tensor) -> int:
    """Return the product of the leading axes."""
    return x.numel() // x.shape[-1] if x.shape[-1] else 0


@dataclass(slots=True)
class Guard:
    """Admission and counting of one seat, shared by its members.

    Attributes:
        form: What is admitted.
        counts: The ledger's counters.
        strict: Raise instead of falling back.
        hosts: The host modules of the seat's members.
        held: The host tensors the impl packed.
        give_back: Puts the host's own modules back at this seat's places; set by the transaction that seats it.
        quick: True while the short check may admit a call; False in training mode, in doubt, or once given back.
        doubt: True after a call with gradients: the packed tensors are compared before the next call is served.
        final: True once the originals were freed: what the impl cannot answer raises.
        shapes: Input shapes already found inside width and band; none where other inputs must come with it.
    """

    form: Form
    counts: Counts
    strict: bool
    hosts: tuple[nn.Module, ...]
    held: tuple[Held, ...]
    give_back: Callable[[], None] = lambda: None
    quick: bool = True
    doubt: bool = False
    final: bool = False
    shapes: set[torch.Size] = field(default_factory=set)

    def examine(self, x: object, sides: tuple[object, ...] = ()) -> Admission:
        """Return what is to become of a call with input ``x`` and further inputs. Pure: neither counts nor warns.

        In a compiled region every comparison is decided while the compiler traces, by properties that it guards on.
        """
        form, given = self.form, (x, *sides)
        if len(sides) != len(form.sides) or not all(isinstance(one, Tensor) and one.dim() for one in given):
            return Admission.FORM
        tensors = cast("tuple[Tensor, ...]", given)
        if (form.axes and tensors[0].dim() != form.axes) or any(rows_of(side) != 1 for side in tensors[1:]):
            return Admission.FORM
        if any(host.training for host in self.hosts):
            return Admission.TRAINING
        for tensor, width in zip(tensors, (form.width, *form.sides), strict=True):
            if (why := self._unfit(tensor, width)) is not Admission.SERVED:
                return why
        if torch.is_autocast_enabled(form.device.type):
            return Admission.AUTOCAST
        packed = (one.tensor for one in self.held)
        if is_grad_enabled() and any(one.requires_grad for one in (*tensors, *packed)):
            return Admission.GRAD
        low, high = form.rows
        return Admission.SERVED if low <= rows_of(tensors[0]) <= high else Admission.ROWS

    def _unfit(self, tensor: Tensor, width: int) -> Admission:
        """Return what keeps one tensor of a call from being admitted, ``SERVED`` when nothing does."""
        form = self.form
        if not is_dynamo_compiling() and type(tensor) not in (Tensor, nn.Parameter):
            return Admission.KIND
        if tensor.dtype is not form.dtype:
            return Admission.DTYPE
        if tensor.shape[-1] != width:
            return Admission.WIDTH
        return Admission.SERVED if tensor.device == form.device else Admission.DEVICE

    def serves(self, x: object) -> bool:
        """Count an admitted call, unless a packed tensor turns out to have changed: then the host runs."""
        if self.counts.restored or (self.doubt and not self.sound()):
            return False
        self.quick = True
        self.counts.eager[Admission.SERVED] += 1
        self.counts.consecutive = 0
        if isinstance(x, Tensor) and not self.form.sides and len(self.shapes) < SHAPES_KEPT:
            self.shapes.add(x.shape)
        return True

    def missed(self, why: Admission, x: object) -> None:
        """Count a call that the host is about to run.

        Raises:
            GuardRefused: strict mode and a reason other than rows, or no originals left to run; nothing was counted.
        """
        counts = self.counts
        self._raise_if_closed(why, x)
        if counts.restored:
            return
        counts.eager[why] += 1
        if not why.fallback:
            return
        if why in (Admission.GRAD, Admission.TRAINING):
            self.doubt, self.quick = True, False
        counts.consecutive += 1
        if counts.eager[why] == 1:
            warnings.warn(f"{self._sentence(why, x)}: the host ran it", SeatWarning, stacklevel=5)
        if counts.consecutive >= SELF_DETACH_AFTER:
            self.restore(f"{counts.consecutive} consecutive fallbacks, the last for {why.word}")

    def traced(self, why: Admission, x: object) -> None:
        """Put the counting of a call into the graph being traced.

        Raises:
            GuardRefused: as in :meth:`missed`, while the compiler traces.
        """
        self._raise_if_closed(why, x)
        self.counts.traced[why.value].add_(1)

    def mode_changed(self) -> None:
        """Close the short check in training mode; back in evaluation mode, compare the packed tensors first."""
        if any(host.training for host in self.hosts):
            self.quick = False
        elif not self.counts.restored and self.sound():
            self.quick = True

    def sound(self) -> bool:
        """Return whether the packed tensors are still the host's; give the seat back when they are not."""
        self.doubt = False
        moved = [one.name for one in self.held if one.moved]
        if moved and not self.counts.restored:
            self.restore(f"{', '.join(moved)} changed after the impl packed it")
        return not moved

    def restore(self, because: str) -> None:
        """Give the seat back to the host for good."""
        self.counts.restored, self.counts.because = True, because
        self.quick = False
        self.give_back()
        warnings.warn(f"seat {self.counts.seat} was given back to the host: {because}", SeatWarning, stacklevel=6)

    def _raise_if_closed(self, why: Admission, x: object) -> None:
        if self.final and why is not Admission.SERVED:
            message = f"{self._sentence(why, x)}; the originals were freed"
            raise GuardRefused(message, hint="call it as certified, or load the model again")
        if self.strict and why.fallback:
            raise GuardRefused(self._sentence(why, x), hint="call it as certified, or attach with strict=False")

    def _sentence(self, why: Admission, x: object) -> str:
        form = self.form
        seen = f"{x.dtype} {tuple(x.shape)} on {x.device}" if isinstance(x, Tensor) else type(x).__name__
        low, high = form.rows
        beside = "".join(f" and [1, {width}]" for width in form.sides)
        admitted = f"{form.dtype} [{low} to {high} rows, {form.width}]{beside} on {form.device}"
        return (
            f"seat {self.counts.seat} refuses a call ({why.word}): it got {seen}, admitted is {admitted}, without "
            "gradients or autocast"
        )


def input_names(host: nn.Module, count: int) -> tuple[str, ...]:
    """Return the names of the first arguments of a module's forward, ``count`` of them.

    They may be given by position or by keyword. An argument that has no such name has an empty one.
    """
    names = [
        name
        for name, parameter in inspect.signature(host.forward).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    return tuple([*names, *[""] * count][:count])


def inputs_of(args: tuple[Any, ...], kwargs: Mapping[str, Any], names: tuple[str, ...]) -> tuple[object, ...]:
    """Return the inputs of a call in the order of ``names``; None for each where it was given anything else."""
    rest = names[len(args) :]
    if len(args) > len(names) or set(kwargs) != set(rest):
        return (None,) * len(names)
    return (*args, *(kwargs[name] for name in rest))
