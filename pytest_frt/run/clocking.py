"""Timing of settled records and unions: one group of fresh processes per impl file and kernel build."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pytest_frt.contracts.job import TimingJob
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.verdict import Crashed, Measured, Pass, Verdict
from pytest_frt.gates import net_win
from pytest_frt.lab.attempts import Attempts
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_group import Ask, TimingGroup
from pytest_frt.measure.traffic import least_bytes, weight_elements
from pytest_frt.rules.thresholds import LEAST_BITS
from pytest_frt.spec import codec
from pytest_frt.spec.digest import file_digest
from pytest_frt.spec.load import load_structure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_frt.contracts.job import HostRef, UnitRef
    from pytest_frt.contracts.timing import TimingEvidence
    from pytest_frt.run.progress import Progress

QUICK = TimingPlan(processes=3, looks=(4,), one_by_one=True, null_pairs=0, witnesses=0)
"""The provisional form: 3 processes of 8 pairs, without controls; it certifies nothing."""
STATES = 4
"""Distinct held-out inputs the timed executions cycle through."""
COMPARE_PAIRS = 10
"""Pairs of a one-process comparison: an order of magnitude for people, never a verdict."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """What is timed under one name.

    Attributes:
        name: Record key id or union name: attempts are counted under it.
        arm: Arm name inside its group.
        phase: Row regime it is timed in.
        units: Units with exactly their surviving seats.
        scales: Calibration artefact, or empty.
    """

    name: str
    arm: str
    phase: str
    units: tuple[UnitRef, ...]
    scales: str


@dataclass(frozen=True, slots=True)
class Course:
    """Where entrants are timed: host, witness's seats, form, cache state, every regime that this run times there."""

    host: HostRef
    seats: str
    phases: tuple[str, ...]
    form: str
    output: str
    cache: str = "hot"


def digest_of(units: Sequence[UnitRef]) -> str:
    """Return the digest attempts are counted under: impl and kernel bytes."""
    lines = sorted(f"{unit.id}|{file_digest(Path(unit.impl_file))}|{unit.kernel_digest}" for unit in units)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def least_read(seats: str, units: Sequence[UnitRef]) -> int:
    """Return the fewest bytes that one execution of ``units`` must read, whatever its scheme.

    Args:
        seats: File of the witness's seat facts.
        units: Units with exactly their surviving seats.
    """
    facts = codec.loads(tuple[SeatFacts, ...], Path(seats).read_bytes())
    structures = {unit.structure: load_structure(unit.structure_folder) for unit in units}
    return least_bytes(weight_elements(facts, units, structures), LEAST_BITS.value)


class Clock:
    """Times entrants and judges net win.

    Args:
        out: Output folder, which keeps the attempts ledger.
        root: Folder for files and locks.
        environ: Environment of the run.
        quick: Provisional form.
        seed: Run seed.
        progress: Told after each process.
        plan: How much is collected; None for what the rule in force needs.
        alpha: Level that a first attempt spends; None for the rule's own.
    """

    def __init__(
        self,
        out: Path,
        root: Path,
        environ: Mapping[str, str],
        *,
        quick: bool,
        seed: int,
        progress: Progress,
        plan: TimingPlan | None = None,
        alpha: float | None = None,
    ) -> None:
        plan = plan or (QUICK if quick else TimingPlan())
        self._lab = TimingLab(root / "timing", environ=environ, plan=plan)
        self._attempts = Attempts(out)
        self._quick, self._seed, self._progress, self._alpha = quick, seed, progress, alpha

    def judge(self, course: Course, entrants: Sequence[Entrant]) -> dict[str, tuple[Verdict, TimingEvidence | None]]:
        """Time entrants of one impl file and kernel build (or one union) in shared processes.

        Returns:
            Entrant name to verdict and evidence; no evidence when the process died.
        """
        out: dict[str, tuple[Verdict, TimingEvidence | None]] = {}
        regimes = {entrant.arm: entrant.phase for entrant in entrants}
        with TimingGroup(
            self._lab, self._job(course, entrants, base_form=course.form), regimes, course.phases
        ) as group:
            for entrant in entrants:
                self._progress.note(f"net win {entrant.name}")
                out[entrant.name] = self._one(course, entrant, group)
        return out

    def compare(self, course: Course, entrant: Entrant) -> tuple[Measured, ...]:
        """Time an eager entrant against the compiled host in one process: a line for people, never a certificate."""
        self._progress.note(f"comparison of {entrant.name} with the compiled host (one process, no certificate)")
        job = self._job(course, (entrant,), base_form="compiled")
        pairs = self._lab.compare(job, entrant.arm, pairs=COMPARE_PAIRS, rng=self._rng(f"compare|{entrant.name}"))
        if isinstance(pairs, Crashed):
            self._progress.note(f"comparison failed: {pairs.detail.splitlines()[0]}")
            return ()
        ratios = sorted(pair.base.worker_s / pair.candidate.worker_s for pair in pairs)
        return tuple(
            Measured(f"compiled_host.{name}", value, ">=", 1.0, len(ratios))
            for name, value in (("median", median(ratios)), ("lowest", ratios[0]), ("highest", ratios[-1]))
        )

    def close(self) -> None:
        """End the witnesses."""
        self._lab.close()

    def _one(self, course: Course, entrant: Entrant, group: TimingGroup) -> tuple[Verdict, TimingEvidence | None]:
        digest = digest_of(entrant.units)
        attempt = 1 if self._quick else self._attempts.next(entrant.name, digest)

        def decide(evidence: TimingEvidence) -> Verdict | None:
            return net_win.decide(evidence, output=course.output)

        rng = self._rng(f"{entrant.name}|{attempt}")
        read = least_read(course.seats, entrant.units)
        got = group.collect(
            Ask(entrant.arm, decide, rng, self._progress, attempt, self._quick, alpha=self._alpha, bytes_read=read)
        )
        if isinstance(got, Crashed):
            return got, None
        verdict = net_win.judge(got, output=course.output)
        if not self._quick:
            self._attempts.note(entrant.name, digest, passed=isinstance(verdict, Pass))
        return verdict, got

    def _job(self, course: Course, entrants: Sequence[Entrant], *, base_form: str) -> TimingJob:
        arms = {entrant.arm: entrant.units for entrant in entrants}
        return TimingJob(
            host=course.host,
            arms={"base": (), **arms},
            seats=course.seats,
            scales={entrant.arm: entrant.scales for entrant in entrants},
            phases=tuple(dict.fromkeys(entrant.phase for entrant in entrants)),
            form=course.form,
            base_form=base_form,
            states=STATES,
            out="",
            cache=course.cache,
        )

    def _rng(self, name: str) -> random.Random:
        """Return the judge's generator: seeded by the run and fresh entropy, so that no impl can foresee a draw."""
        secret = random.SystemRandom().getrandbits(64)
        return random.Random(f"{self._seed}|{name}|{secret}")  # noqa: S311 (draws orders, guards no secret)
