"""The contract battery: every way a host is handled while seats are attached has one declared outcome, tried here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from pytest_frt.contracts.evidence import Check
from pytest_frt.errors import FrtError
from pytest_frt.seat import checks
from pytest_frt.seat.bench import Bench
from pytest_frt.seat.probe import Replay, observe
from pytest_frt.seat.swap import Attachment

CHECKS: Final[tuple[Callable[[Bench], str], ...]] = (
    checks.detach_is_exact,
    checks.state_is_unchanged,
    checks.out_of_band_runs_host,
    checks.autocast_runs_host,
    checks.training_runs_host,
    checks.second_thread_agrees,
    checks.copies_are_host,
    checks.moving_is_refused,
    checks.loading_is_refused,
    checks.hooks_fire_once,
    checks.double_attach_is_refused,
    checks.detach_in_any_order,
    checks.strict_raises_first,
    checks.misfits_are_given_back,
    checks.compiles_whole,
)
"""In order. Each returns what went wrong, or an empty string."""

NEVER_CALLED: Final = "seats_are_called"


@torch.no_grad()
def run_battery(
    model: nn.Module, make_attachment: Callable[[], Attachment], run: Callable[[], Tensor]
) -> tuple[Check, ...]:
    """Try every check of the contract battery on a host and leave it detached.

    Args:
        model: The unattached host, in evaluation mode.
        make_attachment: Attaches the seats under test; called many times.
        run: Runs the host once on a fixed input, bit-identical each time.

    Returns:
        One check per entry of ``CHECKS``, preceded by one that fails when a seat is never called.
    """
    with make_attachment() as attachment:
        seated = attachment.seated
    replays = observe(seated, run)
    silent = [one.bound.facts.id for one in seated if one.bound.facts.id not in replays]
    called = Check(NEVER_CALLED, not silent, f"never called: {', '.join(silent)}" if silent else "")
    if not replays:
        return (called,)
    bench = Bench(model, make_attachment, run, run(), _smallest_of_each(replays))
    return (called, *(_try(check, bench) for check in CHECKS))


def _smallest_of_each(replays: dict[str, Replay]) -> tuple[Replay, ...]:
    """Return, per structure, the seat with the fewest weight elements: copies of it are cheap."""
    best: dict[str, Replay] = {}
    for replay in sorted(replays.values(), key=_elements):
        best.setdefault(replay.seat.bound.facts.structure, replay)
    return tuple(best.values())


def _elements(replay: Replay) -> int:
    return sum(held.tensor.numel() for held in replay.seat.guard.held)


def _try(check: Callable[[Bench], str], bench: Bench) -> Check:
    before = [id(module) for module in bench.model.modules()]
    try:
        fault = check(bench)
    except (FrtError, RuntimeError) as raised:  # torch reports what an impl does wrong as RuntimeError
        fault = f"{type(raised).__name__}: {raised}"
    if not fault and [id(module) for module in bench.model.modules()] != before:
        fault = "the host's modules differ afterwards"
    declared = (check.__doc__ or "").strip()
    return Check(check.__name__, not fault, fault or declared)
