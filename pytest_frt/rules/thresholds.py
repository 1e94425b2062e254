"""Every constant the rules compare with, each with its reason. Seam limits come from schemes and structures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that decides something.

    Attributes:
        value: The number; its unit is in the constant's name or reason.
        because: Why this number.
    """

    value: float
    because: str


NET_WIN_MARGIN: Final = Threshold(1.02, "a win below 2 % does not pay for another part to certify, ship and watch")
NET_WIN_ALPHA: Final = Threshold(0.005, "one false win in 200 records exactly at the margin, far fewer below it")
PROCESS_MARGIN: Final = Threshold(1.01, "a start of the process that shows less than half the margin did not win")
FUTILE_MEDIAN: Final = Threshold(1.0, "a pooled median below 1 is a loss; more units only spend time")
INTERVAL_CONFIDENCE: Final = Threshold(0.99, "matches the 1 % level of the validity guards")

GUARD_LOW: Final = Threshold(0.99, "a control that drifts by more than half the margin could make the margin")
GUARD_HIGH: Final = Threshold(1.01, "as GUARD_LOW, upwards")
GUARD_LEVEL: Final = Threshold(0.01, "drift must also be significant, so that mere noise does not void a run")
CLOCK_SHARE: Final = Threshold(0.05, "two clocks around one region agree to 5 %, or one of them missed work")
CLOCK_ALLOWANCE_S: Final = Threshold(5e-4, "seconds: a command and a reply over a pipe, with a wake-up on each side")
CLOCK_OUTLIERS: Final = Threshold(0.10, "the share of samples a busy machine may delay between the two clocks")
EMPTY_WORK_S: Final = Threshold(2e-5, "seconds: one pass of a host costs more in launches alone; less is no work")
LEAST_BITS: Final = Threshold(4.0, "the narrowest weight that any scheme packs: an arm reads at least this of each")
PEAK_SHARE: Final = Threshold(1.25, "the peak is itself a measurement, and a boost clock may lift one sample over it")
WITNESS_SHARE: Final = Threshold(0.02, "base speed with and without impl code loaded must agree to the margin")
WITNESS_PROCESSES: Final = Threshold(3, "the smallest count whose median survives one disturbed start")
STEAL_SHARE: Final = Threshold(0.05, "stolen CPU seconds per second: above this the hypervisor is timed as well")
PRESSURE_SHARE: Final = Threshold(0.60, "share of time some task waited for a CPU: above this the neighbours are timed")

HELD_OUT_SAMPLES: Final = Threshold(12, "the fewest samples whose median and worst both mean something")
COLLAPSED_ENERGY: Final = Threshold(1e-4, "output energy over the reference's: below it the output is zero or near")
SLOPE_SIGMAS: Final = Threshold(5.0, "standard errors of the slope: 6e-7 by chance, over hundreds of seats and cases")
ALTERNATIVE_SHARE: Final = Threshold(0.5, "the midpoint: nearer to the declared reference than to a near miss of it")
SCALE_SHARE: Final = Threshold(1e-3, "the same passes give the same scales to rounding; half a step of e4m3 is 3e-2")
CALIBRATION_SAMPLES: Final = Threshold(4, "fewer samples fix a scale by what one of them happened to show")
OUTLIER_CAP: Final = Threshold(10.0, "an element allowed over max_abs still stays below this multiple of it")
