"""Stages of a run: a witness per host, a candidate and its oracle per record; expected outputs stay in memory."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.contracts.evidence import CandidateEvidence, ParityEvidence, WitnessEvidence
from pytest_frt.contracts.job import CandidateJob, OracleJob, WitnessJob
from pytest_frt.contracts.oracle import OracleEvidence
from pytest_frt.contracts.verdict import Crashed, Refusal
from pytest_frt.errors import EvidenceError, StorageFault
from pytest_frt.lab.reports import Done, Faulted, crashed
from pytest_frt.lab.store import CAP_BYTES
from pytest_frt.run import leftovers
from pytest_frt.run.custody import Custody, Originals
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from pytest_frt.contracts.evidence import HostMetrics
    from pytest_frt.contracts.job import HostRef, UnitRef
    from pytest_frt.contracts.scheme import SeamLimits
    from pytest_frt.lab.client import LabClient
    from pytest_frt.lab.reports import JobReport
    from pytest_frt.run.progress import Progress
    from pytest_frt.run.settle import Question

SEATS: Final = "seats.json"
SEAM_INPUTS: Final = "seam_inputs.safetensors"
EVIDENCE: Final = "candidate.json"
SEAM: Final = "seam.safetensors"
SCORES: Final = "scores.safetensors"
PROBES: Final = "probes.safetensors"
SCALES: Final = "scales.safetensors"
PARITY: Final = "parity.json"
SEAM_ROWS: Final = 64
"""Real activation rows kept per seat and phase: eight of every decode row count, well under the cap of 256."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A host's witness evidence.

    Attributes:
        evidence: ``witness.json``.
        folder: Where its seats and seam inputs lie.
        scores: Phase to expected output per held-out sample. Deleted from disk before any candidate starts.
        originals: What candidates are given, to be put back should one of them change it.
        probes: As ``scores``, for the inputs that follow the held-out ones.
    """

    evidence: WitnessEvidence
    folder: Path
    scores: dict[str, list[Tensor]]
    originals: Originals
    probes: dict[str, list[Tensor]] = field(default_factory=dict)

    @property
    def seats_file(self) -> str:
        """Path of the seat facts."""
        return str(self.folder / SEATS)

    @property
    def seam_inputs(self) -> str:
        """Path of the seam inputs."""
        return str(self.folder / SEAM_INPUTS)


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate and the oracle's view of it.

    Attributes:
        evidence: ``candidate.json``.
        parity: Metrics of the seams and of the host.
        limits: Unit id to the limits its scheme declares.
        folder: The candidate's folder.
        died: What became of a worker that did not live to run the host with the seats.
        tampered: Files of the run that the candidate changed; they are as before again.
        kept: What a proof will state of this folder, as it was when it was judged.
    """

    evidence: CandidateEvidence
    parity: ParityEvidence
    limits: dict[str, SeamLimits]
    folder: Path
    died: Crashed | None = None
    tampered: tuple[str, ...] = ()
    kept: Custody = field(default_factory=lambda: Custody({}))

    @property
    def scales(self) -> str:
        """Path of the calibration artefact; empty when the scheme needs none."""
        file = self.folder / SCALES
        return str(file) if file.exists() else ""


def _completed(gate: str, report: JobReport) -> Crashed | None:
    """Return None for a completed job, the verdict for a dead one; raise an error that was raised on purpose."""
    match report:
        case Done():
            return None
        case Faulted():
            raise report.error()
        case _:
            return crashed(gate, report)


def _blamed(gate: str, report: Faulted) -> Refusal:
    """Return an error raised on purpose as the candidate's refusal; a full disk is nobody's.

    Raises:
        StorageFault: the worker could not write.
    """
    if report.code == StorageFault.code:
        raise report.error()
    return Refusal(gate, report.code.lower(), report.message)


class Stages:
    """Runs witness, candidate and oracle jobs below one folder.

    Args:
        client: The fork server's client.
        root: Folder for job outputs.
        seed: Run seed.
        progress: Where to say what starts and ends.
    """

    def __init__(self, client: LabClient, root: Path, seed: int, progress: Progress) -> None:
        self._client, self._root, self._seed, self._progress = client, root, seed, progress
        self._count = 0

    def _folder(self, name: str) -> Path:
        """Return a folder whose name no job can foresee: nobody waits there for its evidence."""
        self._count += 1
        return self._root / f"{self._count:03d}-{name}-{secrets.token_hex(4)}"

    def witness(
        self, host: HostRef, judged: Mapping[str, Sequence[str]], structures: Sequence[str]
    ) -> Witnessed | Crashed:
        """Run the host alone.

        Args:
            host: The host.
            judged: Row regime to the names of the structures judged in it.
            structures: Entry folders of all structures.

        Raises:
            FrtError: the host cannot be built (missing extra, unreadable checkpoint).
        """
        folder = self._folder(f"witness-{host.name}")
        self._progress.note(f"witness {host.name} ({host.request.size}): null control, seats, expected outputs")
        regimes = {phase: tuple(names) for phase, names in judged.items()}
        job = WitnessJob(host, tuple(structures), regimes, SEAM_ROWS, self._seed, str(folder))
        if dead := _completed("null_control", self._client.run(job)):
            return dead
        evidence = codec.loads(WitnessEvidence, (folder / "witness.json").read_text())
        self._client.rehearse(evidence.libraries)
        expected = {phase: leftovers.scores(folder / f"scores.{phase}.safetensors") for phase in judged}
        probes = {phase: leftovers.scores(folder / f"probes.{phase}.safetensors") for phase in judged}
        return Witnessed(evidence, folder, expected, Originals.of([folder / SEATS, folder / SEAM_INPUTS]), probes)

    def attempt(
        self, question: Question, units: Sequence[UnitRef], witnessed: Witnessed, *, lifecycle: bool
    ) -> Tried | Crashed | Refusal:
        """Run a candidate, then, once it has exited, the oracles on what it left.

        Returns:
            What was tried; or the crash of a worker that died before its seams were run, or left no readable
            evidence; or the refusal of one that raised an error on purpose (a kernel that changed, a calibration that
            cannot be made).
        """
        name = "+".join(unit.id for unit in units)
        self._progress.note(f"parity {name} on {question.host.name}, {question.phase}, {question.form}")
        folder = self._folder(f"candidate-{question.phase}")
        try:
            report = self._client.run(self._candidate(question, units, witnessed, folder, lifecycle=lifecycle))
            tampered = witnessed.originals.restore()
            if isinstance(report, Faulted):
                return _blamed("seats", report)
            died = _completed("parity", report)
            if died and not (folder / EVIDENCE).exists():
                return died
            tried = self._judged(question, units, witnessed, folder, died)
            return replace(tried, tampered=tampered) if isinstance(tried, Tried) else tried
        except EvidenceError as fault:
            return Crashed("parity", "CRASH", fault.message)
        finally:
            for left in (SEAM, SCORES, PROBES):
                (folder / left).unlink(missing_ok=True)

    def _candidate(
        self, question: Question, units: Sequence[UnitRef], witnessed: Witnessed, folder: Path, *, lifecycle: bool
    ) -> CandidateJob:
        return CandidateJob(
            question.host,
            tuple(units),
            witnessed.seats_file,
            witnessed.seam_inputs,
            question.phase,
            question.form,
            "",
            self._seed,
            lifecycle,
            str(folder),
        )

    def _judged(
        self,
        question: Question,
        units: Sequence[UnitRef],
        witnessed: Witnessed,
        folder: Path,
        died: Crashed | None,
    ) -> Tried | Crashed | Refusal:
        """Have the oracles look at what a candidate left.

        Raises:
            EvidenceError: it is not what a candidate leaves.
        """
        leftovers.within_cap(folder)
        evidence = codec.loads(CandidateEvidence, leftovers.text(folder / EVIDENCE))
        for name in (SEAM, *([SCALES] if os.path.lexists(folder / SCALES) else ())):
            leftovers.regular(folder / name, CAP_BYTES)
        oracle = self._folder(f"oracle-{question.phase}")
        job = OracleJob(
            question.host,
            tuple(units),
            witnessed.seats_file,
            witnessed.seam_inputs,
            str(folder),
            question.phase,
            self._seed,
            str(oracle),
        )
        report = self._client.run(job)
        if isinstance(report, Faulted):
            return _blamed("parity", report)
        if dead := _completed("parity", report):
            return dead
        seen = codec.loads(OracleEvidence, (oracle / "oracle.json").read_text())
        parity = _parity(seen, question.phase, units, witnessed)
        if not died and evidence.composed:
            kind = witnessed.evidence.host_output
            host = _host_metrics(folder / SCORES, kind, witnessed.scores[question.phase])
            probes = _host_metrics(folder / PROBES, kind, witnessed.probes[question.phase])
            parity = replace(parity, host=host, probes=probes)
        (folder / PARITY).write_text(codec.dumps(parity))
        kept = Custody.of(folder / name for name in (PARITY, SCALES) if (folder / name).exists())
        return Tried(evidence, parity, seen.limits, folder, died, kept=kept)


def _parity(seen: OracleEvidence, phase: str, units: Sequence[UnitRef], witnessed: Witnessed) -> ParityEvidence:
    """Return the seams and the controls; what the host came to is still to be compared."""
    evidence, structures = witnessed.evidence, sorted({unit.structure for unit in units})
    zeroed = (one for s in structures for one in evidence.zeroed.get(f"{phase}/{s}", ()))
    frozen = (one for s in structures for one in evidence.frozen.get(f"{phase}/{s}", ()))
    spread = evidence.spread.get(phase, ())
    zeroes, still = tuple(zeroed), tuple(frozen)
    return ParityEvidence(seen.seam, (), zeroes, seen.scale_drift, frozen=still, spread=spread, pooled=seen.pooled)


def _host_metrics(file: Path, kind: str, expected: Sequence[Tensor]) -> tuple[HostMetrics, ...]:
    from pytest_frt.measure.metrics import host_metrics

    got = leftovers.scores(file, len(expected))
    return tuple(host_metrics(c, e, kind, index) for index, (c, e) in enumerate(zip(got, expected, strict=True)))
