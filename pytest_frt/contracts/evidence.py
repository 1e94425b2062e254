"""Evidence: what workers measured, as files the judge reads. Never a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.pooled import PooledMetrics
from pytest_frt.contracts.record import CalibrationFacts, FileDigest, KernelFacts
from pytest_frt.contracts.seat import NotReplaced, SeatFacts
from pytest_frt.contracts.verdict import Refusal


@dataclass(frozen=True, slots=True)
class NullControl:
    """The untouched host against its checkpoint and against itself.

    Attributes:
        tensors: Loaded tensors compared with the checkpoint (0 for synthetic hosts).
        differing: Names whose bytes differ from the file.
        missing: Host tensors with no counterpart in the file (recomputed buffers excluded).
        repeat_differing: Phases whose second run was not bit-identical.
        rng_used: Phases in which the global RNG state moved (in-graph RNG: a missing window).
    """

    tensors: int
    differing: tuple[str, ...]
    missing: tuple[str, ...]
    repeat_differing: tuple[str, ...]
    rng_used: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallFacts:
    """How the host called one seat in one phase.

    Attributes:
        seat: Seat id.
        phase: Row regime.
        calls: Total calls during the held-out score pass.
        by_rows: Row count to number of calls.
        dtype: Input dtype.
    """

    seat: str
    phase: str
    calls: int
    by_rows: dict[str, int]
    dtype: str


@dataclass(frozen=True, slots=True)
class HostMetrics:
    """One held-out sample, candidate host against untouched host.

    Attributes:
        sample: Index.
        finite: No NaN or Inf.
        cosine: Cosine of the flattened output in float64.
        top1: Share of scored positions whose argmax is one of the host's, ties and all (distributions; 1.0 for values).
        last_cosine: Cosine at the last scored position.
        kl: Largest per-position KL(host || candidate) in nats (distributions; 0 for values).
        max_abs: Largest absolute difference.
    """

    sample: int
    finite: bool
    cosine: float
    top1: float
    last_cosine: float
    kl: float
    max_abs: float


@dataclass(frozen=True, slots=True)
class WitnessEvidence:
    """``witness.json``.

    Beside it: ``seats.json``, ``seam_inputs.safetensors`` (key ``<phase>/<seat id>``, value ``[rows, K]``), and
    ``scores.<phase>.safetensors`` and ``probes.<phase>.safetensors`` (key ``<sample index>``, value ``[P, V]``).

    Attributes:
        host: Identity facts.
        host_output: ``distribution`` or ``values``.
        null: Null control.
        seats: Every seat found.
        not_replaced: Linears and norms in no seat.
        calls: Run-time facts per seat and phase.
        weights: Seat id to digest of its slot tensors in memory.
        heldout_digest: sha256 over the held-out samples.
        calibration_digest: sha256 over the calibration samples.
        parameters: Count of host parameters.
        zeroed: ``<phase>/<structure>`` to host metrics with every seat of that structure returning zeros: the control
            that must collapse.
        seconds: Wall time.
        libraries: Library modules that building and running the host imported, in order: later jobs find them loaded.
        frozen: As ``zeroed``, with every seat of the structure repeating its first answer of each shape.
        spread: Row regime to the untouched host under another seed; multimodal hosts only.
    """

    host: HostFacts
    host_output: str
    null: NullControl
    seats: tuple[SeatFacts, ...]
    not_replaced: tuple[NotReplaced, ...]
    calls: tuple[CallFacts, ...]
    weights: dict[str, str]
    heldout_digest: str
    calibration_digest: str
    parameters: int
    zeroed: dict[str, tuple[HostMetrics, ...]]
    seconds: float
    libraries: tuple[str, ...] = ()
    frozen: dict[str, tuple[HostMetrics, ...]] = field(default_factory=dict)
    spread: dict[str, tuple[HostMetrics, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Counts of one seat.

    Attributes:
        seat: Seat id.
        served: Calls the impl answered.
        band: Calls with rows outside the admitted band, run on the host.
        fallbacks: Calls run on the host for any other reason.
        reasons: Reason to count, for the fallbacks.
        restored: True when 32 consecutive misses gave the seat back to the host.
    """

    seat: str
    served: int
    band: int
    fallbacks: int
    reasons: dict[str, int]
    restored: bool


@dataclass(frozen=True, slots=True)
class Check:
    """One lifecycle check: what was tried, whether the declared outcome held, and what was seen."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Conduct:
    """How one bound part answered equal values asked for again, in other memory and beside other rows.

    Every difference is a relative L2; 1 stands for a NaN or Inf that came out on one side only.

    Attributes:
        seat: Seat id.
        runs: Times that the real rows were run.
        repeat: Largest difference between two of those runs; 0 says bit-equal.
        carried: True when a later pass repeats the one before it and not the first: something stays from call to call.
        layouts: Layout to the difference from a contiguous call. They are tried at the first seat of each kind (impl,
            dims, variant), whose numbers every seat of the kind states.
        raised: Layout to the error it raised.
        mates: Difference between rows in the tallest admitted call and the same rows in the lowest one: reported.
        mates_rows: Both heights; equal where the band has only one.
        shapes: Layout to the wrong count, shape or dtype of its outputs.
    """

    seat: str
    runs: int
    repeat: float
    carried: bool
    layouts: dict[str, float]
    raised: dict[str, str]
    mates: float
    mates_rows: tuple[int, int]
    shapes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
    """``candidate.json``.

    Beside it: ``seam.safetensors`` (key ``real/<seat id>`` and ``case/<case>/<seat id>``; several outputs append
    ``#0``, ``#1``), ``scores.safetensors`` (key ``<sample index>``), ``probes.safetensors`` (the same, for the inputs
    that followed through the same seats), ``scales.safetensors`` when calibrated.

    Attributes:
        bound: Seat ids attached.
        refused: Refusals at bind, calibrate or discover, one per seat.
        kernel: Kernel facts per unit id.
        closure: First-party import closure of each impl plus RECORD digests of third-party distributions it imported.
        calibration: None when no scheme needs static scales.
        ledger: After the held-out score pass.
        mutated: Seat ids (``seat|case``) whose inputs changed during a call.
        poison_differing: Seat ids whose outputs differed between two poison fills.
        aliased: Seat ids that returned a buffer they later wrote again.
        shapes_wrong: Seat ids with wrong shape or dtype, with both.
        lifecycle: Contract checks.
        seconds: Wall time.
        weights: Seat id to digest of its slot tensors after the seam calls: the witness's, unless code wrote to them.
        composed: False when the host was not run with the seats: a seat misbehaved at its seam, or the worker died.
        conduct: Per bound seat with real rows.
        misplaced: Seat ids (``seat|case: what``) whose outputs lie in memory that is not theirs alone.
    """

    bound: tuple[str, ...]
    refused: tuple[Refusal, ...]
    kernel: dict[str, KernelFacts]
    closure: tuple[FileDigest, ...]
    calibration: CalibrationFacts | None
    ledger: tuple[LedgerEntry, ...]
    mutated: tuple[str, ...]
    poison_differing: tuple[str, ...]
    aliased: tuple[str, ...]
    shapes_wrong: tuple[str, ...]
    lifecycle: tuple[Check, ...]
    seconds: float
    weights: dict[str, str] = field(default_factory=dict)
    composed: bool = True
    conduct: tuple[Conduct, ...] = ()
    misplaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeamMetrics:
    """One seat on one input set, candidate against both oracles (all computed in float64).

    Attributes:
        seat: Seat id.
        case: ``real`` or the case's name.
        output: Index of the output tensor.
        rows: Rows compared.
        finite: False when any NaN or Inf is in the candidate output where the reference is finite.
        candidate_error: Relative L2 of candidate against the float64 reference.
        scheme_error: Relative L2 of the fake-quantised reference against the float64 reference.
        slope: Least-squares slope of candidate on the fake-quantised reference.
        rel_l2: Relative L2 against the fake-quantised reference.
        row_rel_l2: Worst row's relative L2 (rows below 1e-3 of the mean row norm use the mean as denominator).
        max_abs: Largest absolute difference over the reference RMS.
        outliers: Share of elements over the scheme's ``max_abs`` limit.
        cosine: Cosine against the float64 reference.
        elements: Elements compared.
        mismatch: Both shapes where the candidate's differs from the reference's; the other numbers then state a total
            error.
    """

    seat: str
    case: str
    output: int
    rows: int
    finite: bool
    candidate_error: float
    scheme_error: float
    slope: float
    rel_l2: float
    row_rel_l2: float
    max_abs: float
    outliers: float
    cosine: float
    elements: int = 0
    mismatch: str = ""


@dataclass(frozen=True, slots=True)
class ParityEvidence:
    """Seam metrics per seat and case, and host metrics per held-out sample.

    Attributes:
        seam: Over all seats, cases and outputs.
        host: Per held-out sample.
        zeroed: Host metrics with every seat of the record returning zeros: the control that must collapse.
        scale_drift: As in ``oracle.OracleEvidence``.
        frozen: The same with every seat repeating its first answer: the control of a part that ignores its input.
        probes: Shorter calibration observations, answered after the held-out ones through the same seats.
        spread: The untouched host under another seed, for hosts that say multimodal.
        pooled: As in ``oracle.OracleEvidence``.
    """

    seam: tuple[SeamMetrics, ...]
    host: tuple[HostMetrics, ...]
    zeroed: tuple[HostMetrics, ...] = ()
    scale_drift: dict[str, float] = field(default_factory=dict)
    frozen: tuple[HostMetrics, ...] = ()
    probes: tuple[HostMetrics, ...] = ()
    spread: tuple[HostMetrics, ...] = ()
    pooled: tuple[PooledMetrics, ...] = ()
