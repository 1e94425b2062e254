"""Parity at the host: held-out samples within their bands, probes that follow them, and controls that must collapse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pytest_frt.contracts.evidence import HostMetrics, ParityEvidence
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.rules import bands
from pytest_frt.rules.conduct import REPORTED

GATE: Final = "parity"
CONTROLS: Final = {"zeroed": "returning zeros", "frozen": "repeating its first answer"}
"""Control to what every seat of the record does in it."""


@dataclass(frozen=True, slots=True)
class Vacuous:
    """Host-level parity that neither passes nor fails, and why; the seams carry the verdict."""

    detail: str
    measured: tuple[Measured, ...] = ()


def judge(
    parity: ParityEvidence, output: str, weights: str, *, spread: Sequence[HostMetrics] = ()
) -> Verdict | Vacuous:
    """Judge the host with every seat attached.

    Args:
        parity: Host metrics of held-out samples and probes, and the controls.
        output: ``values`` or ``distribution``.
        weights: ``trained``, or ``random``: host-level parity then says nothing.
        spread: The untouched host under two seeds; empty to take the witness's.

    Returns:
        Pass with its band; Vacuous; or Refusal with reason ``nan``, ``few_samples``, ``host_band``, ``stale``,
        ``no_control`` or ``vacuous_control``.
    """
    if weights != "trained":
        return _vacuous(parity, output)
    verdict = bands.judge_samples(output, parity.host, spread=spread or parity.spread)
    if not isinstance(verdict, Pass):
        return verdict
    refusal = bands.judge_probes(output, parity.probes, spread=spread or parity.spread) or _blind(parity, output)
    return refusal or Pass(verdict.gate, (*verdict.measured, *_reported(parity, output)), band=verdict.band)


def _blind(parity: ParityEvidence, output: str) -> Refusal | None:
    """Refuse where a control is missing, or looks as good as the host: then host parity may see nothing."""
    headline = bands.of_kind(output)[0]
    for name, doing in CONTROLS.items():
        control: tuple[HostMetrics, ...] = getattr(parity, name)
        if not control:
            detail = f"no control with every seat {doing} was recorded: host parity may be blind"
            return Refusal(GATE, "no_control", detail, at="host")
        if not bands.collapsed(output, control):
            best = headline.best(bands.column(control, headline.metric))
            measured = Measured(f"{name}.{headline.metric}", best, "<", headline.warning, len(control))
            detail = f"with every seat {doing} {headline.metric} is still {best:.6g}: host parity is blind here"
            return Refusal(GATE, "vacuous_control", detail, at="host", measured=(measured,))
    return None


def _reported(parity: ParityEvidence, output: str) -> Iterator[Measured]:
    """Yield how much better samples are answered that were calibrated on: stated, and decides nothing."""
    metric = "cosine"
    gap = median(bands.column(parity.probes, metric)) - median(bands.column(parity.host, metric))
    yield Measured(f"host.{metric}.in_sample_gap", gap, REPORTED, gap, len(parity.probes))
    for band in bands.of_kind(output):
        if parity.spread:
            own = band.worst(bands.column(parity.spread, band.metric))
            yield Measured(f"host.{band.metric}.two_seed_spread", own, REPORTED, own, len(parity.spread))


def _vacuous(parity: ParityEvidence, output: str) -> Refusal | Vacuous:
    """Label a host on random weights; NaN still refuses, and a control that moves no bit shows dead seats."""
    broken = [str(sample.sample) for sample in (*parity.host, *parity.probes) if not bands.sound(output, [sample])]
    if broken:
        return Refusal(GATE, "nan", f"NaN or Inf in host outputs of samples {', '.join(broken)}", at="host")
    if any(sample.finite and sample.max_abs == 0 for sample in parity.zeroed):
        detail = "with every seat returning zeros the host's output stays the same bit for bit: the seats are dead"
        return Refusal(GATE, "vacuous_control", detail, at="host")
    measured = tuple(
        Measured(f"host.{band.metric}.worst", band.worst(values), band.op, band.warning, len(values))
        for band in bands.of_kind(output)
        if (values := bands.column(parity.host, band.metric))
    )
    return Vacuous("random weights: host-level parity is vacuous, the seams carry the verdict", measured)
