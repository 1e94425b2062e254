"""Ledger: every seat answered every call that the witness saw inside its band, and nothing fell back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_frt.contracts.evidence import CallFacts, LedgerEntry
from pytest_frt.contracts.verdict import Measured, Refusal, SeatVerdicts

GATE: Final = "ledger"

Bands = Mapping[str, tuple[int, int]]
"""Seat id to the inclusive row band its unit admits."""


def judge(
    entries: Sequence[LedgerEntry], calls: Sequence[CallFacts], *, seats: Sequence[str], bands: Bands, phase: str
) -> SeatVerdicts:
    """Compare what the impl answered with what the witness saw the host call.

    Args:
        entries: Ledger after the held-out pass.
        calls: The witness's calls of the same pass.
        seats: Seats to judge.
        bands: Row band of each seat.
        phase: Row regime of the record.

    Returns:
        Survivors; the rest refused with reason ``no_entry``, ``never_called``, ``restored``, ``fallbacks``,
        ``served`` or ``band``.
    """
    counted = Counter(entry.seat for entry in entries)
    # Two entries of one seat are no count of its calls: neither is believed.
    by_seat = {entry.seat: entry for entry in entries if counted[entry.seat] == 1}
    seen = {facts.seat: facts for facts in calls if facts.phase == phase}
    found = [_problem(seat, by_seat.get(seat), seen.get(seat), bands[seat]) for seat in seats]
    refused = [problem for problem in found if problem]
    out = {refusal.at for refusal in refused}
    survivors = tuple(seat for seat in seats if seat not in out)
    fallbacks = sum(by_seat[seat].fallbacks for seat in survivors)
    served = sum(by_seat[seat].served for seat in survivors)
    measured = (
        Measured("fallbacks", fallbacks, "<=", 0, len(survivors)),
        Measured("served", served, ">=", _inside(seen, survivors, bands), len(survivors)),
    )
    return SeatVerdicts(GATE, survivors, tuple(refused), measured)


def _inside(seen: Mapping[str, CallFacts], seats: Sequence[str], bands: Bands) -> int:
    return sum(split(seen[seat], bands[seat])[0] for seat in seats)


def split(facts: CallFacts, band: tuple[int, int]) -> tuple[int, int]:
    """Return how many of the witness's calls had rows inside ``band``, and how many outside."""
    inside = sum(count for rows, count in facts.by_rows.items() if band[0] <= int(rows) <= band[1])
    return inside, sum(facts.by_rows.values()) - inside


def _problem(seat: str, entry: LedgerEntry | None, facts: CallFacts | None, band: tuple[int, int]) -> Refusal | None:
    """Name the first thing wrong with one seat's counts."""
    if entry is None:
        return Refusal(GATE, "no_entry", f"seat {seat} has no ledger entry of its own (exactly one is needed)", at=seat)
    inside, outside = split(facts, band) if facts else (0, 0)
    if entry.served == 0 or inside == 0:
        detail = f"seat {seat} answered {entry.served} calls; the host made {inside} with {band[0]} to {band[1]} rows"
        return Refusal(GATE, "never_called", detail, at=seat)
    if entry.restored:
        detail = f"seat {seat} was given back to the host after misses: {_reasons(entry)}"
        return Refusal(GATE, "restored", detail, at=seat)
    for reason, got, wanted, what in (
        ("fallbacks", entry.fallbacks, 0, f"calls fell back to the host: {_reasons(entry)}"),
        ("served", entry.served, inside, "calls answered, against the witness's calls inside the band"),
        ("band", entry.band, outside, "calls sent to the host for their rows, against the witness's outside the band"),
    ):
        if got != wanted:
            measured = (Measured(reason, got, "==", wanted, inside + outside, at=seat),)
            return Refusal(GATE, reason, f"seat {seat}: {got} {what} ({wanted})", at=seat, measured=measured)
    return None


def _reasons(entry: LedgerEntry) -> str:
    return ", ".join(f"{reason} x{count}" for reason, count in sorted(entry.reasons.items())) or "no reason recorded"
