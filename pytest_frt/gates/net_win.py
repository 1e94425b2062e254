"""Net win: validity guards first, then FRT-NW-1 on the worker's clock, confirmed on the judge's."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.contracts.verdict import Inconclusive, Invalid, Measured, Pass, Verdict
from pytest_frt.measure.timing import Summary, summarise
from pytest_frt.rules import validity
from pytest_frt.rules.bands import timed_output_floor
from pytest_frt.rules.net_win import QUICK, Processes, decide_after, judge_quick, judge_ratios
from pytest_frt.rules.net_win import decide as apply
from pytest_frt.rules.rows import rounded
from pytest_frt.rules.thresholds import NET_WIN_MARGIN

GATE: Final = "net_win"


def judge(evidence: TimingEvidence, *, output: str) -> Verdict:
    """Judge the timing of one record.

    Args:
        evidence: Every process, in the order of collection.
        output: ``values`` or ``distribution``: which band kept outputs of timed iterations must reach.

    Returns:
        Invalid with the first guard that is breached; else what the rule says. A pass must hold by the judge's clock
        and over every unit collected as well, or it is Inconclusive. The quick form passes with band ``provisional``.
    """
    summary = summarise(evidence)
    for breach in _guards(summary, evidence, output):
        if breach:
            return breach
    verdict = _rule(summary.worker, evidence)
    return _confirmed(verdict, summary, evidence) if isinstance(verdict, Pass) else verdict


def decide(evidence: TimingEvidence, *, output: str) -> Verdict | None:
    """Judge a collection in progress at a look.

    Args:
        evidence: Every process so far, each with the units of the same look.
        output: As in :func:`judge`.

    Returns:
        The verdict, or None to take the units of the next look: where the rule is undecided, and where it passes by
        the worker's clock and is undecided by the judge's.
    """
    summary = summarise(evidence)
    by_worker = _so_far(summary.worker, evidence)
    if by_worker is None or (isinstance(by_worker, Pass) and _so_far(summary.judge, evidence) is None):
        return None
    return judge(evidence, output=output)


def _so_far(processes: Processes, evidence: TimingEvidence) -> Verdict | None:
    units = rounded(processes)
    if evidence.quick:
        return apply(QUICK, units)
    return decide_after(units, attempt=evidence.attempt, alpha=evidence.alpha)


def _rule(processes: Processes, evidence: TimingEvidence) -> Verdict:
    units = rounded(processes)
    if evidence.quick:
        return judge_quick(units)
    return judge_ratios(units, attempt=evidence.attempt, alpha=evidence.alpha)


def _guards(summary: Summary, evidence: TimingEvidence, output: str) -> Iterator[Invalid | None]:
    """Yield the guards in order; the quick form may leave out the null arm and the witnesses."""
    yield validity.both_orders(summary.balanced)
    yield validity.outputs_match(summary.cosines, timed_output_floor(output))
    yield validity.does_work([worker / evidence.repeats for worker, _ in summary.clocks])
    candidate = [worker / evidence.repeats for worker in summary.candidate_samples]
    yield validity.within_peak(candidate, evidence.bytes_read, evidence.peak_bytes_s)
    yield validity.clocks_agree(summary.clocks)
    yield validity.machine_is_quiet(summary.steal, summary.pressure)
    yield validity.control_ratio(validity.CANARY, summary.canary)
    if summary.null or not evidence.quick:
        yield validity.control_ratio(validity.NULL_ARM, summary.null)
    if evidence.witness_base_s or not evidence.quick:
        yield validity.base_is_honest(summary.base, evidence.witness_base_s)


def _confirmed(verdict: Pass, summary: Summary, evidence: TimingEvidence) -> Verdict:
    """Let a pass stand when neither the choice of clock, nor that of the look, nor that of the base made it."""
    by_judge = _rule(summary.judge, evidence)
    if not isinstance(by_judge, Pass):
        detail = "the win shows on the worker's clock and not on the judge's: time the work in longer samples"
        return Inconclusive(GATE, detail, verdict.measured)
    every = [ratio for process in rounded(summary.worker) for ratio in process]
    pooled = median(every)
    if not pooled > NET_WIN_MARGIN.value:
        measured = Measured("pooled_median_of_all", pooled, ">", NET_WIN_MARGIN.value, len(every))
        detail = f"an early look passes, all {len(every)} units together show {pooled:.4f}"
        return Inconclusive(GATE, detail, (measured, *verdict.measured))
    return _without_impl(summary, evidence) or verdict


def _without_impl(summary: Summary, evidence: TimingEvidence) -> Inconclusive | None:
    """Ask that the arm also beats a base that never met impl code: one slowed in most starts escapes the interval."""
    if not evidence.witness_base_s:
        return None
    ratio = median(evidence.witness_base_s) / median(summary.candidate)
    if ratio > NET_WIN_MARGIN.value:
        return None
    measured = Measured("witness_over_candidate", ratio, ">", NET_WIN_MARGIN.value, len(summary.candidate))
    detail = f"the arm wins against the base beside it, against a base without impl code it shows {ratio:.4f}"
    return Inconclusive(GATE, detail, (measured,))
