"""The handle says, in words a person reads, what each seat runs on; and it leads back."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
import torch

from pytest_frt.certs.codes import next_step
from pytest_frt.errors import GuardRefused
from pytest_frt.runtime.handle import FileDecision, Handle, SeatDecision
from pytest_frt.seat.guard import SELF_DETACH_AFTER, SeatWarning

if TYPE_CHECKING:
    from pathlib import Path

    from tests.runtime.conftest import World

USED = SeatDecision("a.mlp", "cell@eager.decode.real.hot", "f" * 64)
REFUSED = SeatDecision("b.mlp", "cell@eager.decode.real.hot", "e" * 64, "WEIGHTS", "x is certified as y", "load z")


def test_inactive_handle_is_complete() -> None:
    handle = Handle(None, [REFUSED], [FileDecision("set:3", "", "SIG_NONE", "no key signed these bytes")])
    handle.detach()
    assert (handle.active, handle.report(), handle.finalize(), handle.plan) == (False, (), 0, "")
    assert handle.explain().splitlines() == [
        "no seats attached, 1 left to the host",
        f"  host       b.mlp  [WEIGHTS] x is certified as y  (cell@eager.decode.real.hot {'e' * 12})  next: load z",
        f"  refused    set:3  [SIG_NONE] no key signed these bytes  next: {next_step('SIG_NONE')}",
    ]


def test_used_seats_come_first() -> None:
    assert [one.seat for one in Handle(None, [REFUSED, USED], []).seats] == ["a.mlp", "b.mlp"]


def test_explain_follows_the_seats(world: World) -> None:
    handle = world.certify().attach()
    name = handle.seats[0].certificate[:12]
    assert handle.explain().startswith(f"2 seats attached by plan {handle.plan[:12]}, 1 left to the host")
    answer = f"  certified  blocks.0, blocks.1  (toy_ffn-toy-toy-toy-cpu@eager.decode.tiny.hot {name})"
    assert answer in handle.explain()
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16):
        warnings.simplefilter("ignore", SeatWarning)
        for _ in range(SELF_DETACH_AFTER):
            world.model.blocks[0](torch.ones(1, 8))
    assert "host       blocks.0  given back: 32 consecutive fallbacks" in str(handle)
    world.model.blocks[1].up.weight.mul_(2)
    assert "certified  blocks.1  (" in handle.explain()
    assert "changed since: weight" in handle.explain()
    handle.detach()
    assert handle.explain().startswith("2 seats detached")


def test_finalize_frees_and_a_spill_leads_back(world: World, tmp_path: Path) -> None:
    handle = world.certify().attach()
    assert handle.finalize(tmp_path / "spill") == 2 * 2 * 8 * 12 * 4
    with pytest.raises(GuardRefused, match="freed"):
        world.model(torch.ones(9, 8))
    handle.detach()
    assert world.is_untouched()
