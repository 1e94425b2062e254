"""Records: what a run proved about one record key. Unsigned; a certificate is a signed statement of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_frt.cell import RecordKey
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.seat import SeatFacts

LOCAL: Final = "local"
"""A revision that says of a build that it came from no commit."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file by role-qualified name, e.g. ``impl/torch_packed.py`` or ``kernel/metadata.json``."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class GateRow:
    """One recomputable gate number.

    Attributes:
        name: e.g. ``parity.seam.rel_l2``, ``latency.net_win``, ``ledger.fallbacks``.
        op: ``>=`` or ``<=``.
        floor: Threshold the run used, a decimal string.
        measured: The judged number, a decimal string.
        n: Sample count behind it.
        statistic: How ``measured`` folds the samples: ``min``, ``max``, ``median`` or ``frt_nw_1``.
        samples: The samples themselves as decimal strings (net win: process-major unit ratios).
        band: ``pass`` or ``warn``.
    """

    name: str
    op: str
    floor: str
    measured: str
    n: int
    statistic: str
    samples: tuple[str, ...] = ()
    band: str = "pass"


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The kernel build a record ran on: identity is the tree digest; repo and revision are claims.

    A local build has no commit: its revision is its tree digest, ``local`` or empty.
    """

    repo: str
    revision: str
    variant: str
    tree_digest: str

    @property
    def is_local(self) -> bool:
        """Whether the build claims no commit."""
        return self.revision in ("", LOCAL, self.tree_digest)


@dataclass(frozen=True, slots=True)
class SeatRecord:
    """One certified seat.

    Attributes:
        facts: Where and what it is.
        weights_digest: Digest of the slot tensors in memory.
        scales: Point name to decimal string of the float32 scale (also in the calibration artefact).
    """

    facts: SeatFacts
    weights_digest: str
    scales: dict[str, str]


@dataclass(frozen=True, slots=True)
class CalibrationFacts:
    """Calibration artefact by digest, how it was made, and the digests of what it saw and what was held out."""

    artefact: FileDigest
    method: str
    samples: int
    data_digest: str
    heldout_digest: str


@dataclass(frozen=True, slots=True)
class Record:
    """Everything a certificate states about one record key.

    Attributes:
        key: Cell, form, phase, size, cache.
        structure_version, impl_version: Integers of the entries.
        subjects: Files by digest: kernel variant, impl import closure, structure.yaml, reference.py, host entry.
        kernel: The kernel build.
        host: Host identity.
        device: Device facts.
        software: Distribution name to version (torch, kernels, safetensors, libraries computed with).
        seats: Surviving seats.
        refused: Seat id to reason, for those that did not survive.
        rows: Certified row band.
        dtype: Boundary dtype.
        calibration: None for schemes without static scales.
        gates: Recomputable numbers.
        attempts: Consecutive non-passing net-win attempts before this one, plus one.
        seed: Seed of the run.
        evidence: Digests of evidence files kept beside the certificate.
        checker: Distribution version and digest of our own sources.
    """

    key: RecordKey
    structure_version: int
    impl_version: int
    subjects: tuple[FileDigest, ...]
    kernel: KernelFacts
    host: HostFacts
    device: DeviceFacts
    software: dict[str, str]
    seats: tuple[SeatRecord, ...]
    refused: dict[str, str]
    rows: tuple[int, int]
    dtype: str
    calibration: CalibrationFacts | None
    gates: tuple[GateRow, ...]
    attempts: int
    seed: int
    evidence: tuple[FileDigest, ...]
    checker: FileDigest


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Records attached together and judged again: the union.

    Attributes:
        name: e.g. ``gemma3_270m-cpu@eager.decode.real.hot``.
        members: Payload sha256 of each member cell statement, sorted.
        keys: Record key ids of the members, in the order of ``members``.
        dropped: Record key id to reason, for units left out while the union was retried.
        gates: End-to-end numbers of the union.
        host, device, software: As in the members.
        attempts: As in Record.
    """

    name: str
    members: tuple[str, ...]
    keys: tuple[str, ...]
    dropped: dict[str, str]
    gates: tuple[GateRow, ...]
    host: HostFacts
    device: DeviceFacts
    software: dict[str, str]
    attempts: int
    seed: int
    checker: FileDigest
