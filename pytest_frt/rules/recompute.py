"""What a verifier does with a gate row: recompute it from its samples and compare again. Believes no verdict."""

from __future__ import annotations

from decimal import Decimal

from pytest_frt.contracts.record import GateRow
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.errors import EvidenceError
from pytest_frt.rules import bands, rows
from pytest_frt.rules.exact import meets
from pytest_frt.rules.net_win import judge_ratios, pooled_median
from pytest_frt.rules.thresholds import HELD_OUT_SAMPLES

HOST_PREFIX = "parity.host."


def _refused(row: GateRow, reason: str, detail: str) -> Refusal:
    return Refusal(row.name, reason, f"{row.name}: {detail}", at=row.name)


def _host_band(row: GateRow) -> Refusal | None:
    """Check what the median alone does not show: enough samples, the worst, and an honest ``band``."""
    metric = row.name.removeprefix(HOST_PREFIX)
    known = [band for kind in bands.BANDS.values() for band in kind if band.metric == metric]
    if not known:
        return _refused(row, "unknown", "no host metric of this name has a band")
    band, values = known[0], [float(sample) for sample in row.samples]
    worst = band.worst(values)
    if row.op != band.op or row.statistic != "median" or len(values) < HELD_OUT_SAMPLES.value:
        return _refused(row, "samples", f"{len(values)} samples, {row.op}, {row.statistic}")
    if not meets(worst, band.op, band.warning):
        return _refused(row, "gate_fail", f"worst sample {worst:g} is not {band.op} {band.warning}")
    if row.band == "pass" and not meets(worst, band.op, band.passing):
        return _refused(row, "band", f"worst sample {worst:g} only reaches warn, the row says pass")
    return None


def recompute(row: GateRow, *, attempt: int = 1) -> Verdict:
    """Recompute one row from its own samples.

    Args:
        row: The row.
        attempt: The record's attempt count; decides which bounds net win must meet.

    Returns:
        Pass with the row's band and its number; Refusal with reason ``samples`` (samples and ``measured`` disagree),
        ``gate_fail`` (the number misses the run's own floor), ``band`` or ``unknown``; for net win whatever the rule
        says of the samples.
    """
    try:
        if row.n != len(row.samples):
            return _refused(row, "samples", f"n is {row.n} with {len(row.samples)} samples")
        if row.statistic == rows.FRT_NW_1:
            verdict = judge_ratios(rows.parse_units(row.samples), attempt=attempt)
            if not isinstance(verdict, Pass):
                return verdict
            measured = rows.decimal(pooled_median(verdict))
        else:
            measured = rows.fold_samples(row.statistic, row.samples)
        if measured != row.measured:
            return _refused(row, "samples", f"samples give {measured}, the row says {row.measured}")
        if not row_meets(row, row.floor):
            return _refused(row, "gate_fail", f"{row.measured} is not {row.op} {row.floor}")
    except EvidenceError as fault:
        return _refused(row, "samples", fault.message)
    if row.name.startswith(HOST_PREFIX) and (refusal := _host_band(row)):
        return refusal
    number = Measured(row.name, float(row.measured), row.op, float(row.floor), row.n)
    return Pass(row.name, (number,), band=row.band)


def row_meets(row: GateRow, floor: str) -> bool:
    """Report whether a row's number meets a floor, its own or a deployer's, compared as exact decimals.

    Raises:
        EvidenceError: ``floor`` or the row's number is no plain decimal, or the row has another direction.
    """
    for text in (floor, row.measured):
        if not rows.DECIMAL.fullmatch(text):
            raise EvidenceError(f"{row.name}: {text!r} is no plain decimal")
    if row.op == ">=":
        return Decimal(row.measured) >= Decimal(floor)
    if row.op == "<=":
        return Decimal(row.measured) <= Decimal(floor)
    raise EvidenceError(f"{row.name}: comparison {row.op!r} is neither >= nor <=")
