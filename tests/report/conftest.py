"""Collected runs without pytest: records whose gates said what a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.report.collected import Collected
from pytest_frt.report.told import Told
from pytest_frt.rules.fold import RECORD_GATES
from pytest_frt.run.results import GateResult

LONG = "decoder_ffn-torch_packed-gemma3_270m-w8a16_decode-cpu@eager.decode.real.hot"


@dataclass
class Builder:
    """Collects gate results; gates that are not given pass with usual numbers."""

    collected: Collected = field(default_factory=Collected)
    long: str = LONG

    def record(self, name: str, *, proven: bool = True, **verdicts: Verdict) -> str:
        """Add every gate of one record."""
        record: Any = SimpleNamespace() if proven else None
        for gate in RECORD_GATES:
            verdict = verdicts.get(gate, Pass(gate, usual(gate)))
            refused = (Refusal(gate, "envelope", "too wide", at="layers.9.mlp"),) if gate == "seats" else ()
            seats = ("layers.0.mlp", "layers.1.mlp")
            result = GateResult(name, gate, verdict, seats, refused, proven=record if gate == "net_win" else None)
            self.collected.add(Told(name, gate, result=result))
        return name


def usual(gate: str) -> tuple[Measured, ...]:
    """Return numbers such as a gate that holds compares."""
    return {
        "parity": (Measured("host.top1.worst", 0.96, ">=", 0.85, 12), Measured("seam.slope", 0.0001, "<=", 0.002, 9)),
        "ledger": (Measured("fallbacks", 0, "<=", 0, 2), Measured("served", 864, ">=", 864, 18)),
        "net_win": (
            Measured("pooled_median", 1.307, ">", 1.02, 24),
            Measured("interval_low", 1.221, ">", 1.02, 24),
            Measured("interval_high", 1.398, ">", 1.02, 24),
        ),
    }.get(gate, ())


@pytest.fixture
def build() -> Builder:
    """Return an empty builder."""
    return Builder()


@pytest.fixture
def slow() -> Callable[[float], Refusal]:
    """Return a function that gives the verdict of a record whose pooled median is no win."""

    def refusal(pooled: float) -> Refusal:
        numbers = (Measured("pooled_median", pooled, ">", 1.02, 80), Measured("interval_low", pooled, ">", 1.02, 80))
        return Refusal("net_win", "no_win", f"pooled median {pooled} is a loss", measured=numbers)

    return refusal
