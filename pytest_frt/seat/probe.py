"""Replaying one seat's calls outside its model: what the contract checks compare host and seat with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from pytest_frt.seat.swap import Seated


@dataclass(frozen=True, slots=True)
class Given:
    """Stands for a tensor of the call: ``INPUT`` the seat's input, ``RESULT`` what the producer returned."""

    word: str


INPUT: Final = Given("input")
RESULT: Final = Given("result")
Value = Any
"""An argument as the host passed it, tensors of the seat replaced by :class:`Given`."""


@dataclass(frozen=True, slots=True)
class Replay:
    """How the host calls the members of one seat, producer first.

    Attributes:
        seat: The seat.
        x: The input the host gave it, ``[..., width]``.
        calls: Arguments and keyword arguments per place.
    """

    seat: Seated
    x: Tensor
    calls: tuple[tuple[tuple[Value, ...], Mapping[str, Value]], ...]

    def play(self, members: Iterable[nn.Module], x: Tensor) -> tuple[Tensor, ...]:
        """Call the members on ``x`` as the host does and return every tensor they return."""
        outputs: list[Tensor] = []
        for member, (args, kwargs) in zip(members, self.calls, strict=True):
            known = {INPUT: x, RESULT: outputs[0] if outputs else x}
            put = {key: _filled(value, known) for key, value in kwargs.items()}
            answer = member(*(_filled(value, known) for value in args), **put)
            outputs += answer if isinstance(answer, tuple) else [answer]
        return tuple(outputs)

    @property
    def hosts(self) -> tuple[nn.Module, ...]:
        """The host's own modules."""
        return self.seat.guard.hosts

    @property
    def low(self) -> Tensor:
        """An input with the fewest admitted rows, ``[rows, width]``."""
        return self.rows(self.seat.guard.form.rows[0])

    def rows(self, count: int) -> Tensor:
        """Return ``count`` rows drawn from the host's own, repeated where there are too few, ``[.., count, width]``.

        There are as many axes as the host gives, since other inputs of the call are broadcast against them.
        """
        flat = self.x.reshape(-1, self.x.shape[-1])
        rows = flat[torch.arange(count, device=flat.device) % flat.shape[0]].contiguous()
        return rows.reshape(*(1,) * (self.x.dim() - rows.dim()), *rows.shape)


def _filled(value: Value, known: Mapping[Given, Tensor]) -> Value:
    return known[value] if isinstance(value, Given) else value


def observe(seated: Sequence[Seated], run: Callable[[], object]) -> dict[str, Replay]:
    """Run the untouched host once and return, by seat id, how it called each seat that it called.

    Args:
        seated: Seats of a detached attachment.
        run: Runs the host.
    """
    calls: dict[str, dict[int, tuple[tuple[Value, ...], Mapping[str, Value]]]] = {}
    inputs: dict[str, Tensor] = {}
    results: dict[str, Tensor] = {}

    def watch(name: str, index: int) -> Callable[..., None]:
        def hook(_module: nn.Module, args: tuple[Value, ...], kwargs: dict[str, Value], output: Value) -> None:
            if index == 0:
                inputs[name] = next(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
                results[name] = output
            elif name not in inputs:
                return
            known = {id(inputs[name]): INPUT, id(results[name]): RESULT}
            named = {key: known.get(id(value), value) for key, value in kwargs.items()}
            calls.setdefault(name, {})[index] = (tuple(known.get(id(value), value) for value in args), named)

        return hook

    with ExitStack() as undo:
        for one in seated:
            for index, host in enumerate(one.guard.hosts):
                handle = host.register_forward_hook(watch(one.bound.facts.id, index), with_kwargs=True)
                undo.callback(handle.remove)
        run()
    return {
        one.bound.facts.id: Replay(
            one, inputs[name].detach().clone(), tuple(calls[name][i] for i in sorted(calls[name]))
        )
        for one in seated
        if len(calls.get(name := one.bound.facts.id, {})) == len(one.guard.hosts)
    }
