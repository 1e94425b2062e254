"""Gate rows: the numbers of a record as decimal strings that a verifier recomputes without trusting a verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Final

from pytest_frt.contracts.evidence import Check, HostMetrics, LedgerEntry, NullControl, SeamMetrics
from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.record import GateRow
from pytest_frt.contracts.scheme import SeamLimits
from pytest_frt.errors import EvidenceError
from pytest_frt.rules import bands, pooled, seam
from pytest_frt.rules.thresholds import NET_WIN_MARGIN

DECIMAL: Final = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,12})?", re.ASCII)
PLACES: Final = 12
RATIO_PLACES: Final = 6
"""Decimals of a unit ratio: a millionth is far below any margin, and 80 of them stay small in a certificate."""
FRT_NW_1: Final = "frt_nw_1"
SEAM_NUMBERS: Final = ("reference_ratio", "slope", "rel_l2", "row_rel_l2", "max_abs")
POOLED_NUMBERS: Final = ("channel", "alternative", "untold")
NET_WIN_ROW: Final = "latency.net_win"


def decimal(value: float | Decimal, places: int = PLACES) -> str:
    """Return a plain decimal string: no exponent, no trailing zeros, at most ``places`` decimals.

    Raises:
        EvidenceError: NaN, infinite, or over 15 integer digits.
    """
    text = f"{Decimal(value):.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    text = "0" if text == "-0" else text
    if not DECIMAL.fullmatch(text):
        raise EvidenceError(f"gate number {value} has no plain decimal form: finite and below 1e15 is needed")
    return text


def rounded(processes: Iterable[Iterable[float]]) -> list[list[float]]:
    """Return unit ratios as a record will hold them, so that judge and verifier see the same numbers."""
    return [[round(ratio, RATIO_PLACES) for ratio in process] for process in processes]


def exact(samples: Sequence[str]) -> list[Decimal]:
    """Return the numbers of plain decimal strings.

    Raises:
        EvidenceError: other text, e.g. an exponent or ``NaN``.
    """
    if not all(map(DECIMAL.fullmatch, samples)):
        odd = next(sample for sample in samples if not DECIMAL.fullmatch(sample))
        raise EvidenceError(f"gate sample {odd!r} is no plain decimal")
    return list(map(Decimal, samples))


def fold(statistic: str, values: Sequence[Decimal]) -> Decimal:
    """Return the ``min``, ``max`` or ``median`` of numbers, exactly; a mean of two is rounded as ``decimal`` does.

    Raises:
        EvidenceError: no numbers, or another statistic.
    """
    if not values:
        raise EvidenceError(f"statistic {statistic!r} over no samples")
    match statistic:
        case "min":
            return min(values)
        case "max":
            return max(values)
        case "median":
            ordered, middle = sorted(values), len(values) // 2
            if len(values) % 2:
                return ordered[middle]
            return Decimal(decimal((ordered[middle - 1] + ordered[middle]) / 2))
    raise EvidenceError(f"statistic {statistic!r} is not one of min, max, median")


def fold_samples(statistic: str, samples: Sequence[str]) -> str:
    """Return what :func:`fold` makes of decimal strings, as a decimal string.

    Raises:
        EvidenceError: no samples, another statistic, or a sample that is no plain decimal.
    """
    return decimal(fold(statistic, exact(samples)))


def row(name: str, op: str, floor: float, values: Sequence[float], statistic: str, *, band: str = "pass") -> GateRow:
    """Build one row whose ``measured`` is the statistic of its rounded samples."""
    samples = tuple(decimal(value) for value in values)
    measured = fold_samples(statistic, samples)
    return GateRow(name, op, decimal(floor), measured, len(samples), statistic, samples, band)


def null_rows(null: NullControl, phase: str) -> tuple[GateRow, ...]:
    """State the null control of one phase."""
    differing = len(null.differing) + len(null.missing)
    unlike = {*null.repeat_differing, *null.rng_used}
    return (
        row("null_control.tensors_differing", "<=", 0, [differing], "max"),
        row("null_control.repeat_identical", ">=", 1, [int(phase not in unlike)], "min"),
    )


def seat_rows(seats: Sequence[str]) -> tuple[GateRow, ...]:
    """State how many seats the record certifies."""
    return (row("seats.certified", ">=", 1, [len(seats)], "min"),)


def _larger(value: float, so_far: float) -> float:
    """Return the larger; NaN, once met, stays, and has no row: ``decimal`` refuses it."""
    return so_far if math.isnan(so_far) or value <= so_far else value


def _largest(values: Iterable[float]) -> float:
    return reduce(lambda so_far, value: _larger(value, so_far), values)


def seam_rows(
    metrics: Sequence[SeamMetrics], seats: Sequence[str], limits: Mapping[str, SeamLimits]
) -> tuple[GateRow, ...]:
    """State the seam numbers, one sample per seat: its worst over real inputs, cases and outputs.

    Args:
        metrics: Seam metrics of at least every seat in ``seats``.
        seats: Surviving seats, in the order of the samples.
        limits: Per seat, the limits it was judged by. With seats of several schemes only ``reference_ratio`` has one
            ceiling for all, and only that row is built.

    Raises:
        EvidenceError: a seat has no metrics.
    """
    worst: dict[str, dict[str, float]] = {seat: {} for seat in seats}
    for one in metrics:
        if one.seat in worst:
            for name, value in seam.numbers(one, limits[one.seat]).items():
                worst[one.seat][name] = _larger(value, worst[one.seat].get(name, value))
    if missing := [seat for seat, found in worst.items() if not found]:
        raise EvidenceError(f"no seam metrics of {', '.join(missing)}")
    shared = [seam.ceilings(limits[seat]) for seat in seats]
    uniform = all(top == shared[0] for top in shared)
    names = [name for name in SEAM_NUMBERS if uniform or name == "reference_ratio"]
    return tuple(
        row(f"parity.seam.{name}", "<=", shared[0][name], [worst[seat][name] for seat in seats], "max")
        for name in names
    )


def pooled_rows(
    metrics: Sequence[PooledMetrics], seats: Sequence[str], limits: Mapping[str, SeamLimits]
) -> tuple[GateRow, ...]:
    """State what the rows of all cases together show, one sample per seat: its worst over outputs.

    Args:
        metrics: Pooled metrics of at least every seat in ``seats``.
        seats: Surviving seats, in the order of the samples.
        limits: Per seat, the limits it was judged by. With seats of several schemes ``channel`` has no one ceiling,
            and no row.

    Raises:
        EvidenceError: a seat has no pooled metrics.
    """
    found = pooled.by_seat(metrics, seats)
    if missing := [seat for seat, some in found.items() if not some]:
        raise EvidenceError(f"no pooled metrics of {', '.join(missing)}")
    built = []
    for name in POOLED_NUMBERS:
        tops = {pooled.ceilings(one, limits[seat])[name] for seat in seats for one in found[seat]}
        if len(tops) > 1 and name != "untold":
            continue
        samples = [_largest(pooled.numbers(one)[name] for one in found[seat]) for seat in seats]
        # Nothing is refused for what is not told: the run admits as many as there are, and a policy may admit fewer.
        top = max(samples) if name == "untold" else next(iter(tops))
        built.append(row(f"parity.seam.{name}", "<=", top, samples, "max"))
    return tuple(built)


def host_rows(output: str, samples: Sequence[HostMetrics], *, band: str) -> tuple[GateRow, ...]:
    """State the host metrics per held-out sample; ``band`` is that of the parity gate's pass."""
    return tuple(
        row(f"parity.host.{one.metric}", one.op, one.passing, bands.column(samples, one.metric), "median", band=band)
        for one in bands.of_kind(output)
    )


def ledger_rows(entries: Sequence[LedgerEntry], seats: Sequence[str]) -> tuple[GateRow, ...]:
    """State fallbacks and never-called seats, one sample per seat.

    Raises:
        EvidenceError: a seat has no ledger entry.
    """
    by_seat = {entry.seat: entry for entry in entries}
    if missing := [seat for seat in seats if seat not in by_seat]:
        raise EvidenceError(f"no ledger entry of {', '.join(missing)}")
    found = [by_seat[seat] for seat in seats]
    return (
        row("ledger.fallbacks", "<=", 0, [entry.fallbacks for entry in found], "max"),
        row("ledger.never_called", "<=", 0, [int(entry.served == 0) for entry in found], "max"),
    )


def contract_rows(lifecycle: Sequence[Check]) -> tuple[GateRow, ...]:
    """State how many lifecycle checks did not end in their declared outcome, one sample per check."""
    return (row("contract.failed", "<=", 0, [int(not check.ok) for check in lifecycle], "max"),)


def net_win_row(processes: Sequence[Sequence[float]]) -> GateRow:
    """State the net win: every unit collected, as ``process:ratio``, and their pooled median.

    Args:
        processes: Unit ratios per process; all of them, also those after the look that decided.

    Raises:
        EvidenceError: no units, or a ratio that is no decimal.
    """
    ratios = [(index, decimal(ratio, RATIO_PLACES)) for index, unit in enumerate(processes) for ratio in unit]
    samples = tuple(f"{index}:{ratio}" for index, ratio in ratios)
    measured = fold_samples("median", [ratio for _, ratio in ratios])
    return GateRow(NET_WIN_ROW, ">=", decimal(NET_WIN_MARGIN.value), measured, len(samples), FRT_NW_1, samples)
