"""Validity guards: what makes a timing run no evidence, looked at before any verdict (docs/adr/0004).

Each takes summary numbers and returns ``Invalid`` with the guard's name, or None. A number that is NaN or infinite
breaches its guard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from pytest_frt.contracts.verdict import Invalid, Measured
from pytest_frt.rules.exact import meets, order_interval, sign_test
from pytest_frt.rules.thresholds import (
    CLOCK_ALLOWANCE_S,
    CLOCK_OUTLIERS,
    CLOCK_SHARE,
    EMPTY_WORK_S,
    GUARD_HIGH,
    GUARD_LEVEL,
    GUARD_LOW,
    INTERVAL_CONFIDENCE,
    PEAK_SHARE,
    PRESSURE_SHARE,
    STEAL_SHARE,
    WITNESS_PROCESSES,
    WITNESS_SHARE,
)

GATE: Final = "net_win"
CANARY: Final = "canary"
NULL_ARM: Final = "null_arm"


def _usable(values: Sequence[float]) -> bool:
    return bool(values) and all(math.isfinite(value) and value > 0 for value in values)


def control_ratio(guard: str, ratios: Sequence[float]) -> Invalid | None:
    """Require that a control which cannot differ between the arms does not differ.

    Args:
        guard: ``CANARY`` or ``NULL_ARM``.
        ratios: Base time over candidate time of the control, per unit.

    Returns:
        Invalid when the median lies outside 0.99 to 1.01 and the exact sign test rejects 1.00 at 1 %: both, so that
        noise alone does not void a run.
    """
    if not _usable(ratios):
        return Invalid(GATE, guard, f"{guard}: {len(ratios)} ratios, some missing or no time ratio")
    centre, chance = median(ratios), sign_test(ratios, 1.0)
    steady = meets(centre, ">=", GUARD_LOW.value) and meets(centre, "<=", GUARD_HIGH.value)
    if steady or chance >= GUARD_LEVEL.value:
        return None
    detail = f"{guard} median ratio {centre:.4f} over {len(ratios)} units, sign test p = {chance:.1g}"
    bound = GUARD_LOW if centre < 1 else GUARD_HIGH
    measured = Measured(f"{guard}_median", centre, ">=" if centre < 1 else "<=", bound.value, len(ratios))
    return Invalid(GATE, guard, detail, (measured,))


def clocks_agree(samples: Sequence[tuple[float, float]]) -> Invalid | None:
    """Require that the worker's and the judge's clock agree on how long a sample took.

    Args:
        samples: ``(worker seconds, judge seconds)`` per sample, both arms.

    Returns:
        Invalid when more than a tenth of the samples differ by over 5 % plus the pipe's allowance.
    """
    apart = [
        (worker, judge)
        for worker, judge in samples
        if not abs(judge - worker) <= CLOCK_SHARE.value * worker + CLOCK_ALLOWANCE_S.value
    ]
    share = len(apart) / len(samples) if samples else math.inf
    if share <= CLOCK_OUTLIERS.value:
        return None
    worst = max(apart, key=lambda pair: abs(pair[1] - pair[0]), default=(math.nan, math.nan))
    detail = (
        f"{len(apart)} of {len(samples)} samples differ between the worker's and the judge's clock, "
        f"worst {worst[0]:.6f} s against {worst[1]:.6f} s"
    )
    measured = Measured("clock_outliers", share, "<=", CLOCK_OUTLIERS.value, len(samples))
    return Invalid(GATE, "clock", detail, (measured,))


def does_work(seconds: Sequence[float]) -> Invalid | None:
    """Require that no execution was shorter than any real work.

    Args:
        seconds: Seconds per execution of every timed sample of both arms, by the worker's clock.
    """
    shortest = min(seconds, default=math.nan)
    if _usable(seconds) and meets(shortest, ">=", EMPTY_WORK_S.value):
        return None
    detail = f"an execution took {shortest} s, under the floor of {EMPTY_WORK_S.value} s: {EMPTY_WORK_S.because}"
    measured = Measured("shortest_execution_s", shortest, ">=", EMPTY_WORK_S.value, len(seconds))
    return Invalid(GATE, "empty_work", detail, (measured,))


def within_peak(seconds: Sequence[float], bytes_read: int, peak_bytes_s: float) -> Invalid | None:
    """Require that no execution read its weights faster than the device can read anything.

    Args:
        seconds: Seconds per execution of every timed sample of the arm, by the worker's clock.
        bytes_read: Fewest bytes that one execution must read; 0 if unknown, which is no breach.
        peak_bytes_s: Most bytes per second that processes without impl code moved; 0 if unknown, which is no breach.

    Returns:
        Invalid when the fastest execution implies more than the peak with its allowance, or a number is none.
    """
    if bytes_read == 0 or peak_bytes_s == 0:
        return None
    sound = _usable(seconds) and _usable([peak_bytes_s])
    rate, limit = (bytes_read / min(seconds) if sound else math.nan), PEAK_SHARE.value * peak_bytes_s
    if meets(rate, "<=", limit):
        return None
    detail = (
        f"an execution that must read {bytes_read} bytes implies {rate:.4g} bytes per second, the device moved at most "
        f"{peak_bytes_s:.4g}: the work was not done there and then"
    )
    measured = Measured("implied_bytes_per_s", rate, "<=", limit, len(seconds))
    return Invalid(GATE, "peak_bandwidth", detail, (measured,))


def base_is_honest(base_medians: Sequence[float], witness: Sequence[float]) -> Invalid | None:
    """Require that the base runs as fast beside the impl as in processes that never loaded it.

    Args:
        base_medians: Median base seconds of each timing process.
        witness: Median base seconds of each witness process.

    Returns:
        Invalid when the 99 % interval of the base medians misses the witness median by more than 2 %, or when there
        are too few witnesses.
    """
    if not (_usable(base_medians) and _usable(witness)) or len(witness) < WITNESS_PROCESSES.value:
        detail = f"{len(witness)} witness processes (needs {WITNESS_PROCESSES.value}) for {len(base_medians)} bases"
        return Invalid(GATE, "witness", detail)
    alone, interval = median(witness), order_interval(base_medians, INTERVAL_CONFIDENCE.value)
    low, high = alone * (1 - WITNESS_SHARE.value), alone * (1 + WITNESS_SHARE.value)
    if interval.low <= high and interval.high >= low:
        return None
    detail = (
        f"base runs in {interval.low:.6f} to {interval.high:.6f} s beside the impl, in {alone:.6f} s without it: "
        "impl code or a neighbour slows one of them"
    )
    limit = Measured(
        "base_over_witness", median(base_medians) / alone, "<=", 1 + WITNESS_SHARE.value, len(base_medians)
    )
    return Invalid(GATE, "witness", detail, (limit,))


def machine_is_quiet(steal: Sequence[float], pressure: Sequence[float]) -> Invalid | None:
    """Require that the machine mostly ran what was timed; the median over processes forgives one bad one.

    Args:
        steal: Stolen CPU seconds per second, per process.
        pressure: Share of time in which some task waited for a CPU, per process.
    """
    for guard, values, limit in (("steal", steal, STEAL_SHARE), ("pressure", pressure, PRESSURE_SHARE)):
        if not values:
            continue
        sound = all(math.isfinite(value) for value in values)
        centre = median(values) if sound else math.nan
        if not meets(centre, "<=", limit.value):
            measured = Measured(guard, centre, "<=", limit.value, len(values))
            return Invalid(GATE, guard, f"{guard} {centre:.3f} over {limit.value}: {limit.because}", (measured,))
    return None


def outputs_match(cosines: Sequence[float], floor: float) -> Invalid | None:
    """Require that what the timed iterations returned is what the host returns on those inputs.

    Args:
        cosines: Worst cosine of kept timed outputs against the witness's, per process.
        floor: The host's warn band.
    """
    worst = min(cosines, default=math.nan)
    if cosines and all(meets(value, ">=", floor) for value in cosines):
        return None
    measured = Measured("timed_output_cosine", worst, ">=", floor, len(cosines))
    return Invalid(GATE, "outputs", f"a timed iteration returned other values: cosine {worst:.6f}", (measured,))


def both_orders(balanced: Iterable[bool]) -> Invalid | None:
    """Require that every block ran the base first once and the candidate first once.

    Args:
        balanced: Per block, whether its two pairs have opposite orders.
    """
    flags = list(balanced)
    if all(flags):
        return None
    detail = f"{flags.count(False)} of {len(flags)} blocks ran both pairs in one order: order bias does not cancel"
    return Invalid(GATE, "order", detail)
