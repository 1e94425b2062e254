"""Hooks that watch seats of an untouched host: counts, rows, dtypes and a draw of real input rows."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pytest_frt.lab.calls import Call
from pytest_frt.seat.guard import rows_of
from pytest_frt.seat.hooks import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torch import nn

    from pytest_frt.contracts.seat import SeatFacts

GROUPS = 4
"""Calls kept of a seat with several inputs: what comes with x belongs to one call, so that rows are not pooled."""


@dataclass
class SeatTap:
    """What one seat was called with.

    Attributes:
        by_rows: Row count to calls.
        dtype: dtype name of the last call.
        inside: Rows drawn from calls whose row count lies in the phase's regime, with what came with them.
        outside: The same of the other calls.
    """

    by_rows: Counter[int] = field(default_factory=Counter)
    dtype: str = ""
    inside: list[Call] = field(default_factory=list)
    outside: list[Call] = field(default_factory=list)

    def rows(self, limit: int, generator: torch.Generator) -> Tensor | None:
        """Draw at most ``limit`` rows ``[R, K]`` of what was seen, from the regime's calls when there were any."""
        seen = self.inside or self.outside
        if not seen:
            return None
        pool = torch.cat([call.x for call in seen])
        order = torch.randperm(pool.shape[0], generator=generator)[:limit]
        return pool[order.sort().values].contiguous()

    def groups(self, limit: int, generator: torch.Generator) -> list[Call]:
        """Draw rows as :meth:`rows` does; where other inputs come with them, at most ``GROUPS`` whole calls."""
        seen = self.inside or self.outside
        if not any(call.sides for call in seen):
            pooled = self.rows(limit, generator)
            return [] if pooled is None else [Call(pooled)]
        count = max(1, min(GROUPS, limit // max(call.rows for call in seen)))
        chosen = torch.randperm(len(seen), generator=generator)[:count].sort().values
        return [seen[int(index)] for index in chosen]


def _each(output: Any, change: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401 (what a module returns)
    return tuple(map(change, output)) if isinstance(output, tuple) else change(output)


@contextmanager
def tapping(
    model: nn.Module,
    seats: Iterable[SeatFacts],
    regime: tuple[int, int],
    per_call: int,
    generator: torch.Generator,
    inputs: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[dict[str, SeatTap]]:
    """Watch the first place of every seat while the block runs; hooks are removed on every way out.

    Args:
        model: The untouched host.
        seats: Seats to watch.
        regime: Inclusive row range of the phase.
        per_call: Rows kept of one call, drawn at random.
        generator: Source of the draw.
        inputs: Structure to the count of its inputs where that is not one.

    Yields:
        Seat id to its tap.
    """
    taps: dict[str, SeatTap] = {}

    def watch(tap: SeatTap, taken: int) -> Any:  # noqa: ANN401 (torch's hook type)
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = tensors_of(args, kwargs)
            if not given:
                return
            x, *sides = given[:taken]
            rows = rows_of(x)
            tap.by_rows[rows] += 1
            tap.dtype = str(x.dtype).removeprefix("torch.")
            flat = x.detach().reshape(-1, x.shape[-1])
            few = per_call if taken == 1 else max(per_call, regime[0])
            keep = torch.randperm(rows, generator=generator)[:few]
            inside = regime[0] <= rows <= regime[1]
            found = Call(flat[keep].clone(), tuple(side.detach().reshape(1, -1).clone() for side in sides))
            (tap.inside if inside else tap.outside).append(found)

        return hook

    with ExitStack() as undo:
        for seat in seats:
            tap = taps.setdefault(seat.id, SeatTap())
            module = model.get_submodule(seat.seat.places[0])
            handle = module.register_forward_pre_hook(watch(tap, inputs.get(seat.structure, 1)), with_kwargs=True)
            undo.callback(handle.remove)
        yield taps


@contextmanager
def frozen(model: nn.Module, seats: Iterable[SeatFacts]) -> Iterator[None]:
    """Make every seat repeat its first answer of each shape while the block runs: a part that ignores its input."""

    def freezing() -> Any:  # noqa: ANN401 (torch's hook type)
        first: dict[tuple[int, torch.Size], Tensor] = {}

        def freeze(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:  # noqa: ANN401
            # Copies: a host may write into what a layer returns.
            places = count()
            return _each(output, lambda one: first.setdefault((next(places), one.shape), one.clone()).clone())

        return freeze

    with ExitStack() as undo:
        for seat in seats:
            for place in seat.seat.places:
                undo.callback(model.get_submodule(place).register_forward_hook(freezing()).remove)
        yield


@contextmanager
def zeroed(model: nn.Module, seats: Iterable[SeatFacts]) -> Iterator[None]:
    """Make every seat return zeros of its own shape while the block runs: the control that must collapse."""

    def zero(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> Any:  # noqa: ANN401 (torch's hook type)
        return _each(output, torch.zeros_like)

    with ExitStack() as undo:
        for seat in seats:
            for place in seat.seat.places:
                undo.callback(model.get_submodule(place).register_forward_hook(zero).remove)
        yield
