"""Union: what passed alone is attached together and judged again; a refused union is tried without its worst unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_frt.contracts.verdict import Pass, Refusal, SeatVerdicts, Verdict
from pytest_frt.gates.parity import ParityVerdict

GATE: Final = "union"


@dataclass(frozen=True, slots=True)
class Standing:
    """One unit of a union.

    Attributes:
        unit: Unit or record id.
        seats: Its seats in the union.
        speed: Pooled median ratio of its own net win.
    """

    unit: str
    seats: tuple[str, ...]
    speed: float


def judge(parity: ParityVerdict, ledger: SeatVerdicts, net_win: Verdict) -> Verdict:
    """Judge units attached together. A plan is exact: one seat refused refuses the plan.

    Args:
        parity: Parity of every seat of the union and of the host with all of them.
        ledger: Ledger over the same seats.
        net_win: Net win of the union, or NotRun while the others do not hold.

    Returns:
        Pass with the numbers of all three; else the first that does not hold, as a verdict of this gate. Refusal with
        reason ``unaccounted`` where parity and ledger do not speak of the same seats.
    """
    refused = (*parity.seats.refused, *ledger.refused)
    if refused:
        first = refused[0]
        seats = ", ".join(refusal.at for refusal in refused)
        detail = f"{len(refused)} seats refused in the union ({seats}): {first.detail}"
        return Refusal(GATE, first.reason, detail, at=first.at, measured=first.measured)
    if odd := set(parity.seats.survivors) ^ set(ledger.survivors):
        detail = f"only one of parity and ledger judged {', '.join(sorted(odd))}"
        return Refusal(GATE, "unaccounted", detail, at=min(odd))
    same = parity.verdict
    if not isinstance(same, Pass):
        return replace(same, gate=GATE)
    if not isinstance(net_win, Pass):
        return replace(net_win, gate=GATE)
    band = next((one.band for one in (net_win, same) if one.band != "pass"), "pass")
    return Pass(GATE, (*same.measured, *ledger.measured, *net_win.measured), band=band)


def worst_unit(standings: Sequence[Standing], refused: Sequence[Refusal]) -> str:
    """Return the unit a refused union is tried without: a fixed rule, so that the path can be replayed.

    Args:
        standings: Units of the union.
        refused: Seats refused in the union; empty when the whole was refused.

    Returns:
        The unit with the most refused seats; among equals the one whose own win is smallest, then by name.
    """
    places = {refusal.at for refusal in refused}
    ranked = sorted(standings, key=lambda one: (-len(places & set(one.seats)), one.speed, one.unit))
    return ranked[0].unit
