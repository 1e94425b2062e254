"""What the contract checks work on, and how they compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pytest_frt.seat.guard import version_of
from pytest_frt.seat.probe import Replay
from pytest_frt.seat.swap import Attachment, attach


@dataclass(frozen=True, slots=True)
class Bench:
    """What every check works on.

    Attributes:
        model: The detached host.
        make: Attaches the seats under test.
        run: Runs the host once on a fixed input.
        expected: What the untouched host returned.
        replays: One called seat of each structure, the one with the fewest weights.
    """

    model: nn.Module
    make: Callable[[], Attachment]
    run: Callable[[], Tensor]
    expected: Tensor
    replays: tuple[Replay, ...]

    @contextmanager
    def attached(self, *, strict: bool = False, only: Sequence[Replay] | None = None) -> Iterator[Attachment]:
        """Attach for the duration of the block; ``only`` these seats, or all."""
        if only is None and not strict:
            attachment = self.make()
        else:
            attachment = attach(self.model, [one.seat.bound for one in only or self.replays], strict=strict)
        try:
            yield attachment
        finally:
            attachment.detach()

    def first(self) -> Replay:
        """Return the first seat under test."""
        return self.replays[0]

    def members(self, replay: Replay) -> tuple[nn.Module, ...]:
        """Return what sits at a seat's places now."""
        return tuple(self.model.get_submodule(path) for path in replay.seat.bound.facts.seat.places)


def same(got: Sequence[Tensor], wanted: Sequence[Tensor]) -> bool:
    """Return whether two lists of tensors are bit-equal."""
    return all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


def addresses(model: nn.Module) -> dict[str, tuple[int, torch.dtype, int]]:
    """Return, by name in the state, where a tensor lies, its dtype and its in-place version."""
    state = model.state_dict(keep_vars=True)
    return {
        name: (one.data_ptr(), one.dtype, version_of(one)) for name, one in state.items() if isinstance(one, Tensor)
    }
