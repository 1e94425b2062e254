"""Gates: evidence in, verdict out. Pure functions in the order in which they decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pytest_frt.contracts.verdict import SeatVerdicts, Verdict
from pytest_frt.gates import contract, ledger, net_win, null_control, parity, seats, union

Judgement = Verdict | SeatVerdicts | parity.ParityVerdict


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate.

    Attributes:
        name: Name in verdicts, node ids and rows.
        judge: Its one function; each takes the evidence it reads.
    """

    name: str
    judge: Callable[..., Judgement]


GATES: Final = (
    Gate(null_control.GATE, null_control.judge),
    Gate(seats.GATE, seats.judge),
    Gate(parity.GATE, parity.judge),
    Gate(ledger.GATE, ledger.judge),
    Gate(contract.GATE, contract.judge),
    Gate(net_win.GATE, net_win.judge),
    Gate(union.GATE, union.judge),
)
"""The order has meaning: a gate that does not hold leaves the later ones not run."""
