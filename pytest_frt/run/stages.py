"""Stages of a run: a witness per host, a candidate and its oracle per record; expected outputs stay in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.contracts.evidence import CandidateEvidence, OracleEvidence, ParityEvidence, WitnessEvidence
from pytest_frt.contracts.job import CandidateJob, OracleJob, WitnessJob
from pytest_frt.contracts.verdict import Crashed, Refusal
from pytest_frt.lab.reports import Done, Faulted, crashed
from pytest_frt.spec import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from pytest_frt.contracts.evidence import SeamMetrics
    from pytest_frt.contracts.job import HostRef, UnitRef
    from pytest_frt.contracts.scheme import SeamLimits
    from pytest_frt.lab.client import LabClient
    from pytest_frt.lab.reports import JobReport
    from pytest_frt.run.progress import Progress

SEAM_ROWS = 64
"""Real activation rows kept per seat and phase: eight of every decode row count, well under the cap of 256."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A host's witness evidence.

    Attributes:
        evidence: ``witness.json``.
        folder: Where its seats and seam inputs lie.
        scores: Phase to expected output per held-out sample. Deleted from disk before any candidate starts.
    """

    evidence: WitnessEvidence
    folder: Path
    scores: dict[str, list[Tensor]]

    @property
    def seats_file(self) -> str:
        """Path of the seat facts."""
        return str(self.folder / "seats.json")

    @property
    def seam_inputs(self) -> str:
        """Path of the seam inputs."""
        return str(self.folder / "seam_inputs.safetensors")


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate and the oracle's view of it.

    Attributes:
        evidence: ``candidate.json``.
        parity: Metrics of the seams and of the host.
        limits: Unit id to the limits its scheme declares.
        folder: The candidate's folder.
    """

    evidence: CandidateEvidence
    parity: ParityEvidence
    limits: dict[str, SeamLimits]
    folder: Path

    @property
    def scales(self) -> str:
        """Path of the calibration artefact; empty when the scheme needs none."""
        file = self.folder / "scales.safetensors"
        return str(file) if file.exists() else ""


def _completed(gate: str, report: JobReport) -> Crashed | None:
    """Return None for a completed job, the verdict for a dead one; raise again what was raised on purpose."""
    match report:
        case Done():
            return None
        case Faulted():
            raise report.error()
        case _:
            return crashed(gate, report)


def _read_scores(file: Path) -> list[Tensor]:
    from safetensors.torch import load_file

    tensors = load_file(file)
    file.unlink()
    return [tensors[str(index)] for index in range(len(tensors))]


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
        self._count += 1
        return self._root / f"{self._count:03d}-{name}"

    def witness(self, host: HostRef, phases: Sequence[str], structures: Sequence[str]) -> Witnessed | Crashed:
        """Run the host alone.

        Raises:
            FrtError: the host cannot be built (missing extra, unreadable checkpoint).
        """
        folder = self._folder(f"witness-{host.name}")
        self._progress.note(f"witness {host.name} ({host.request.size}): null control, seats, expected outputs")
        job = WitnessJob(host, tuple(structures), tuple(phases), SEAM_ROWS, self._seed, str(folder))
        if dead := _completed("null_control", self._client.run(job)):
            return dead
        evidence = codec.loads(WitnessEvidence, (folder / "witness.json").read_text())
        scores = {phase: _read_scores(folder / f"scores.{phase}.safetensors") for phase in phases}
        return Witnessed(evidence, folder, scores)

    def attempt(
        self,
        host: HostRef,
        units: Sequence[UnitRef],
        phase: str,
        form: str,
        witnessed: Witnessed,
        *,
        lifecycle: bool,
        scales: str = "",
    ) -> Tried | Crashed | Refusal:
        """Run a candidate, then, once it has exited, the oracles on what it left.

        Returns:
            What was tried; or what became of a worker that died; or the refusal that the candidate's own side raised
            on purpose (a kernel that changed, a calibration that cannot be made, a broken ``bind``).
        """
        name = "+".join(unit.id for unit in units)
        self._progress.note(f"parity {name} on {host.name}, {phase}, {form}")
        folder, oracle = self._folder(f"candidate-{phase}"), self._folder(f"oracle-{phase}")
        refs = tuple(units)
        candidate = CandidateJob(
            host,
            refs,
            witnessed.seats_file,
            witnessed.seam_inputs,
            phase,
            form,
            scales,
            self._seed,
            lifecycle,
            str(folder),
        )
        report = self._client.run(candidate)
        if isinstance(report, Faulted):
            return Refusal("seats", report.code.lower(), report.message)
        if dead := _completed("parity", report):
            return dead
        evidence = codec.loads(CandidateEvidence, (folder / "candidate.json").read_text())
        judged = OracleJob(
            host, refs, witnessed.seats_file, witnessed.seam_inputs, str(folder), phase, self._seed, str(oracle)
        )
        if dead := _completed("parity", self._client.run(judged)):
            return dead
        seen = codec.loads(OracleEvidence, (oracle / "oracle.json").read_text())
        parity = self._host_parity(folder, units, phase, witnessed, seen.seam)
        (folder / "seam.safetensors").unlink(missing_ok=True)
        (folder / "parity.json").write_text(codec.dumps(parity))
        return Tried(evidence, parity, seen.limits, folder)

    @staticmethod
    def _host_parity(
        folder: Path, units: Sequence[UnitRef], phase: str, witnessed: Witnessed, seam: tuple[SeamMetrics, ...]
    ) -> ParityEvidence:
        from pytest_frt.measure.metrics import host_metrics

        kind = witnessed.evidence.host_output
        got = _read_scores(folder / "scores.safetensors")
        host = tuple(
            host_metrics(candidate, expected, kind, index)
            for index, (candidate, expected) in enumerate(zip(got, witnessed.scores[phase], strict=True))
        )
        structures = {unit.structure for unit in units}
        zeroed = tuple(m for s in sorted(structures) for m in witnessed.evidence.zeroed.get(f"{phase}/{s}", ()))
        return ParityEvidence(seam, host, zeroed)
