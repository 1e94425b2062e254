"""A seat counts as called where one execution of the phase calls it, whatever scoring does besides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from pytest_frt.contracts.seat import ModuleSeat, SeatFacts
from pytest_frt.lab.hosting import Hosting
from pytest_frt.lab.taps import tapping
from pytest_frt.lab.witness import _call_facts, _called

SEATS = tuple(SeatFacts("toy", ModuleSeat(name), {}, {"D": 4}, {}, {}, "float32", {}) for name in ("first", "step"))
X = torch.ones(3, 4)


class Decoder(nn.Module):
    """What comes first is computed once; a step reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.step = nn.Linear(4, 4), nn.Linear(4, 4)


class Program:
    """Scores from the beginning and runs single steps."""

    def prepare(self, model: Decoder, samples: list[dict[str, Tensor]], phase: str) -> Tensor:  # noqa: ARG002
        return cast("Tensor", model.first(samples[0]["x"]))

    def run(self, model: Decoder, state: Tensor) -> Tensor:
        return cast("Tensor", model.step(state))


@torch.no_grad()
def test_seat_of_the_preparation_alone_has_no_calls() -> None:
    model, program = Decoder(), Program()
    host = cast("Hosting", SimpleNamespace(model=model, program=program))
    called = _called(host, SEATS, [{"x": X}], "decode")
    assert called == {"step"}
    with tapping(model, SEATS, (1, 8), 8, torch.Generator()) as taps:
        program.run(model, program.prepare(model, [{"x": X}], "decode"))
    found: dict[str, Any] = {one.seat: (one.calls, one.by_rows) for one in _call_facts("decode", taps, called)}
    assert found == {"first": (0, {}), "step": (1, {"3": 1})}
