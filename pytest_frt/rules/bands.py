"""Host-level bands: how near the outputs of the host with seats must stay to the untouched host's (docs/adr/0005).

Over at least twelve held-out samples the median must reach ``pass`` and the worst must reach ``warn``. The band of a
host that holds is ``pass`` when the worst sample reaches ``pass`` too, else ``warn``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pytest_frt.contracts.evidence import HostMetrics
from pytest_frt.contracts.verdict import Measured, Pass, Refusal, Verdict
from pytest_frt.errors import SpecError
from pytest_frt.rules.exact import meets
from pytest_frt.rules.thresholds import HELD_OUT_SAMPLES

GATE: Final = "parity"
HOST_BAND: Final = "host_band"
SHARE: Final = "top1"
"""The metric that is a share of positions."""


@dataclass(frozen=True, slots=True)
class Band:
    """Limits of one host metric.

    Attributes:
        metric: Field of ``HostMetrics``.
        op: ``>=`` or ``<=``.
        passing: What the median must reach.
        warning: What the worst sample must reach.
        because: Why these numbers.
    """

    metric: str
    op: str
    passing: float
    warning: float
    because: str

    def worst(self, values: Sequence[float]) -> float:
        """Return the worst of ``values`` in this metric's direction."""
        return min(values) if self.op == ">=" else max(values)

    def best(self, values: Sequence[float]) -> float:
        """Return the best of ``values`` in this metric's direction."""
        return max(values) if self.op == ">=" else min(values)


BANDS: Final = {
    "values": (
        Band("cosine", ">=", 0.999, 0.995, "an embedding or action that turns by 2.6 degrees still ranks the same"),
    ),
    "distribution": (
        Band("top1", ">=", 0.95, 0.85, "one position in twenty may be a near tie; one in seven is another model"),
        Band("last_cosine", ">=", 0.99, 0.95, "the next token is drawn there; logits share a mean, so 0.95 is far off"),
        Band("kl", "<=", 0.1, 0.5, "nats at the worst position: by Pinsker at most 0.22, then 0.5, of the mass moves"),
    ),
}
"""Output kind to its bands; the first metric is the headline."""


def of_kind(output: str) -> tuple[Band, ...]:
    """Return the bands of an output kind.

    Raises:
        SpecError: unknown kind.
    """
    if output not in BANDS:
        raise SpecError(f"host output kind {output!r} has no bands; known: {', '.join(BANDS)}", hint="fix host.yaml")
    return BANDS[output]


def column(samples: Sequence[HostMetrics], metric: str) -> list[float]:
    """Return one metric of every sample."""
    return [float(getattr(sample, metric)) for sample in samples]


def sound(output: str, samples: Sequence[HostMetrics]) -> bool:
    """Report whether every output and every judged number is finite."""
    metrics = [value for band in of_kind(output) for value in column(samples, band.metric)]
    return all(sample.finite for sample in samples) and all(map(math.isfinite, metrics))


def _band_of(band: Band, values: Sequence[float], spread: Sequence[float]) -> tuple[str, tuple[Measured, ...]]:
    """Return ``pass``, ``warn`` or ``low``, with the median and the worst."""
    centre, worst, floor = median(values), band.worst(values), _floor(band, spread)
    measured = (
        Measured(f"host.{band.metric}.median", centre, band.op, band.passing, len(values)),
        Measured(f"host.{band.metric}.worst", worst, band.op, floor, len(values)),
    )
    if not (meets(centre, band.op, band.passing) and meets(worst, band.op, floor)):
        return "low", measured
    return "pass" if meets(worst, band.op, band.passing) else "warn", measured


def judge_samples(output: str, samples: Sequence[HostMetrics], *, spread: Sequence[HostMetrics] = ()) -> Verdict:
    """Judge a host's held-out samples against its bands.

    Args:
        output: ``values`` or ``distribution``.
        samples: At least twelve held-out samples.
        spread: The untouched host against itself under two seeds (multimodal hosts only): the worst sample may then
            be as far off as the host is from itself.

    Returns:
        Pass with its band, or Refusal with reason ``nan``, ``few_samples`` or ``host_band``.
    """
    if len(samples) < HELD_OUT_SAMPLES.value:
        detail = f"{len(samples)} held-out samples, needs {HELD_OUT_SAMPLES.value}: {HELD_OUT_SAMPLES.because}"
        return Refusal(GATE, "few_samples", detail)
    if not (sound(output, samples) and sound(output, spread)):
        bad = [str(sample.sample) for sample in (*samples, *spread) if not sound(output, [sample])]
        return Refusal(GATE, "nan", f"NaN or Inf in host outputs of held-out samples {', '.join(bad)}", at="host")
    measured: list[Measured] = []
    low: list[str] = []
    names: list[str] = []
    for band in of_kind(output):
        name, numbers = _band_of(band, column(samples, band.metric), column(spread, band.metric))
        measured += numbers
        names.append(name)
        if name == "low":
            centre, worst = numbers
            low.append(
                f"{band.metric} median {centre.value:.6g} (needs {band.op} {centre.required:g}), "
                f"worst {worst.value:.6g} (needs {band.op} {worst.required:g})"
            )
    if low:
        return Refusal(GATE, HOST_BAND, "; ".join(low), at="host", measured=tuple(measured))
    return Pass(GATE, tuple(measured), band="warn" if "warn" in names else "pass")


def judge_probes(output: str, probes: Sequence[HostMetrics], *, spread: Sequence[HostMetrics] = ()) -> Refusal | None:
    """Judge the few observations that follow the held-out ones through the same seats.

    Every one must reach what the worst held-out sample must. A share of equal positions is left out: over the few
    positions of a probe one near tie would decide it.

    Args:
        output: ``values`` or ``distribution``.
        probes: At least one.
        spread: As for ``judge_samples``.

    Returns:
        None, or Refusal with reason ``no_control`` (there are none), ``nan`` or ``stale``.
    """
    if not probes:
        detail = "no observation followed the held-out ones: what stays in the seats could not show"
        return Refusal(GATE, "no_control", detail, at="host")
    if not sound(output, probes):
        return Refusal(GATE, "nan", "NaN or Inf in host outputs after the held-out samples", at="host")
    over = []
    for band in (band for band in of_kind(output) if band.metric != SHARE):
        worst, floor = band.worst(column(probes, band.metric)), _floor(band, column(spread, band.metric))
        if not meets(worst, band.op, floor):
            over.append(Measured(f"probe.{band.metric}", worst, band.op, floor, len(probes)))
    if not over:
        return None
    said = "; ".join(f"{one.metric} {one.value:.6g} (needs {one.op} {one.required:g})" for one in over)
    detail = f"other observations through the seats that answered the held-out ones: {said}"
    return Refusal(GATE, "stale", detail, at="host", measured=tuple(over))


def _floor(band: Band, spread: Sequence[float]) -> float:
    """Return what the worst sample must reach: the warn band, or the host's own spread where that is wider."""
    if not spread:
        return band.warning
    own = band.worst(spread)
    return min(band.warning, own) if band.op == ">=" else max(band.warning, own)


def collapsed(output: str, zeroed: Sequence[HostMetrics]) -> bool:
    """Report whether a control with zeroed seats falls out of the headline metric's warn band on every sample."""
    headline = of_kind(output)[0]
    values = column([sample for sample in zeroed if sample.finite], headline.metric)
    return bool(zeroed) and all(
        math.isfinite(value) and not meets(value, headline.op, headline.warning) for value in values
    )


def timed_output_floor(output: str) -> float:
    """Return the cosine that kept outputs of timed iterations must reach: the warn band of the kind's cosine."""
    return next(band.warning for band in of_kind(output) if band.metric in {"cosine", "last_cosine"})
