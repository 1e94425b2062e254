"""Jobs: what the judge asks a worker to do. Sent as JSON; every path is absolute."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_frt.contracts.host import BuildRequest

HOT = "hot"
COLD = "cold"
"""States of the caches before a timed sample."""


@dataclass(frozen=True, slots=True)
class HostRef:
    """A host to build.

    Attributes:
        name: Host name.
        folder: Its entry folder (host.yaml, host.py).
        request: What to build.
        threads: Intra-op threads of the worker.
    """

    name: str
    folder: str
    request: BuildRequest
    threads: int


@dataclass(frozen=True, slots=True)
class UnitRef:
    """One impl in one scheme over the seats it may take: what is attached together.

    Attributes:
        structure: Catalog name; ``structure_folder`` its entry folder.
        impl: Impl name; ``impl_file`` its module file.
        scheme: Scheme name; ``scheme_file`` its module file.
        kernel_repo: Kernel repo id the impl declares.
        kernel_path: Folder of the kernel repo or build to load.
        kernel_digest: frt-tree-v1 digest of the variant directory, checked before loading.
        rows: Admitted row band; other rows run the host and are counted as band dispatch.
        seats: Seat ids to take; empty means every seat of the structure.
        kernel_revision: Commit the build was published at, a claim; empty for a local build.
    """

    structure: str
    structure_folder: str
    impl: str
    impl_file: str
    scheme: str
    scheme_file: str
    kernel_repo: str
    kernel_path: str
    kernel_digest: str
    rows: tuple[int, int]
    seats: tuple[str, ...] = ()
    kernel_revision: str = ""

    @property
    def id(self) -> str:
        """``decoder_ffn-torch_packed-w16a32``."""
        return f"{self.structure}-{self.impl}-{self.scheme}"


@dataclass(frozen=True, slots=True)
class WitnessJob:
    """Host and references only: null control, seats, run-time facts, seam inputs, host outputs.

    Attributes:
        host: Host to build.
        structures: Entry folders of the structures to look for.
        judged: Row regime to run to the names of the structures that are judged in it: each gets a zeroed-seat control.
        seam_rows: Rows of real activations kept per seat and phase (at most 256).
        seed: Draws which rows are kept.
        out: Directory to fill.
    """

    host: HostRef
    structures: tuple[str, ...]
    judged: dict[str, tuple[str, ...]]
    seam_rows: int
    seed: int
    out: str


@dataclass(frozen=True, slots=True)
class CandidateJob:
    """Calibrate, bind, run the seam inputs and the held-out host pass, dump outputs, ledger and lifecycle results.

    Attributes:
        host: Host to build.
        units: What to attach; one, or several for a union.
        seats: Seat facts the witness found (JSON file written by the witness).
        seam_inputs: safetensors of seam inputs (never outputs).
        phase: Row regime.
        form: ``eager`` or ``compiled``.
        scales: Calibration artefact to bind with; empty means calibrate now.
        case_seed: Seed of the structure's discriminating cases.
        lifecycle: Run the contract battery as well.
        out: Directory to fill.
    """

    host: HostRef
    units: tuple[UnitRef, ...]
    seats: str
    seam_inputs: str
    phase: str
    form: str
    scales: str
    case_seed: int
    lifecycle: bool
    out: str


@dataclass(frozen=True, slots=True)
class OracleJob:
    """Reference and fake-quantised reference in float64, after the candidate exited, without impl code.

    Attributes:
        host: Host to build (for the weights).
        units: The candidate's units.
        seats: Seat facts file.
        seam_inputs: The candidate's seam inputs.
        candidate: The candidate's output directory.
        phase: Row regime.
        case_seed: As given to the candidate.
        out: Directory to fill.
    """

    host: HostRef
    units: tuple[UnitRef, ...]
    seats: str
    seam_inputs: str
    candidate: str
    phase: str
    case_seed: int
    out: str


@dataclass(frozen=True, slots=True)
class TimingJob:
    """Start of a freshly exec'ed timing process; further commands come over the control pipe.

    Attributes:
        host: Host to build.
        arms: Arm name to the units attached in it; the base arm is ``base`` with none.
        seats: Seat facts file.
        scales: Arm name to calibration artefact path (empty string when the scheme needs none).
        phases: Row regimes to prepare inputs for.
        form: ``eager`` or ``compiled``.
        base_form: Form of the base arm (``compiled`` only in comparisons).
        states: How many distinct held-out inputs to prepare.
        out: Directory for the outputs the judge asks to keep.
        cache: ``hot``, or ``cold`` to empty the caches before every sample; a cold region is one execution.
    """

    host: HostRef
    arms: dict[str, tuple[UnitRef, ...]]
    seats: str
    scales: dict[str, str]
    phases: tuple[str, ...]
    form: str
    base_form: str
    states: int
    out: str
    cache: str = HOT


Job = WitnessJob | CandidateJob | OracleJob | TimingJob
