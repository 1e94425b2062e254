"""Hosts: what host.yaml says, what host.py must define, and the facts a witness records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class PhaseSpec:
    """One row regime of a host.

    Attributes:
        name: ``decode``, ``verify`` (several tokens per decode step), ``denoise`` or ``prefill``.
        rows: Inclusive rows a seat sees in this phase at ``real`` size: decode and verify within 1-8, denoise within
            10-64, prefill from 256. A certificate covers the rows that both phase and impl admit.
        timed_rows: Rows of one timed execution (``prepare`` is asked for this many).
        score_positions: Scored positions per held-out sample (at most 32).
    """

    name: str
    rows: tuple[int, int]
    timed_rows: int
    score_positions: int


@dataclass(frozen=True, slots=True)
class HostSpec:
    """What host.yaml declares.

    Attributes:
        name: Host name.
        summary: One sentence.
        output: ``distribution`` (logits over a vocabulary) or ``values``.
        sizes: Subset of ``("tiny", "real", "full")``.
        weights: Size to ``trained`` or ``random``; random makes host-level parity vacuous: the seams carry the verdict.
        forms: Deployment forms it can run, e.g. ``("eager", "compiled")``.
        phases: Row regimes.
        structures: Structures looked for; empty means every one in the catalog.
        exclude: Seat path globs left out, each with a reason.
        calibration_samples: Samples used for calibration (disjoint from held-out by digest).
        heldout_samples: Held-out samples judged (at least 12 at real size).
        requires: Import names the host needs, with the extra that installs them.
        multimodal: True when two seeds of the host may differ legitimately.
        digest: sha256 of the yaml bytes.
        source_digest: sha256 of host.py.
        folder: Absolute path of the entry.
        pipeline: Stage pipeline of the catalog that it runs; empty when it takes part in none.
    """

    name: str
    summary: str
    output: str
    sizes: tuple[str, ...]
    weights: dict[str, str]
    forms: tuple[str, ...]
    phases: tuple[PhaseSpec, ...]
    structures: tuple[str, ...]
    exclude: dict[str, str]
    calibration_samples: int
    heldout_samples: int
    requires: dict[str, str]
    multimodal: bool
    digest: str
    source_digest: str
    folder: str
    pipeline: str = ""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What the lab asks a host to build.

    Attributes:
        size: ``tiny``, ``real`` or ``full``.
        seed: Seed of everything random (weights of random hosts, sample order).
        checkpoint: Local checkpoint directory, or None for the host's own.
        device: torch device string.
        cache: Directory for one-time conversions.
    """

    size: str
    seed: int
    checkpoint: str | None
    device: str
    cache: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the weights came from.

    Attributes:
        kind: ``file`` or ``synthetic``.
        files: safetensors files whose tensors the loaded host must equal (``file`` only).
        recipe: Name and seed of the random recipe (``synthetic`` only).
        renames: Host tensor name to file tensor name where they differ (ties included).
    """

    kind: str
    files: tuple[str, ...] = ()
    recipe: str = ""
    renames: dict[str, str] = field(default_factory=dict)


Sample = Mapping[str, "Tensor"]
"""One input observation: name to tensor, batch axis first (batch 1)."""


class HostProgram(Protocol):
    """What ``hosts/<name>/host.py`` defines at module level.

    ``prepare`` is untimed and builds everything one execution needs; ``run`` is one timed execution
    in the phase and leaves ``state`` such that the next ``run`` on it does the same work and returns
    bit-identical values. A second instance of a state is its deep copy, so that a state holds the model neither itself
    nor in part. ``fresh`` is untimed and cheap: it returns a state of the same shapes and the same
    work with values that ``seed`` draws, and leaves ``state`` as it was. No timed execution sees values that
    an earlier one saw, so that nothing is gained by keeping answers. ``score`` is what host-level parity compares.

    A host may also define ``shorter(sample, phase) -> Sample``, the beginning of an observation with fewer scored
    positions, and must define ``reseeded(sample, seed) -> Sample``, the same observation with its random windows drawn
    anew, where its host.yaml says multimodal. Where its host.yaml names a pipeline it must define
    ``stages(model, samples) -> object``, which tells the stages of the model, by two samples, to the checks of that
    pipeline: see ``contracts.pipeline``.
    """

    def build(self, request: BuildRequest) -> nn.Module: ...
    def checkpoint(self, request: BuildRequest) -> Checkpoint: ...
    def samples(self, request: BuildRequest) -> Iterator[Sample]: ...
    def prepare(self, model: nn.Module, samples: list[Sample], phase: str) -> Any: ...  # noqa: ANN401 (host-private)
    def fresh(self, model: nn.Module, state: Any, seed: int) -> Any: ...  # noqa: ANN401
    def run(self, model: nn.Module, state: Any) -> Tensor: ...  # noqa: ANN401
    def score(self, model: nn.Module, samples: list[Sample], phase: str) -> list[Tensor]: ...
    def projection(self, model: nn.Module) -> dict[str, str | int | float | bool | None]: ...
    def compile(self, model: nn.Module, phase: str) -> None: ...


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Identity of a host as a certificate states it; recomputed in the live process at attach.

    Attributes:
        name: Host name.
        host_class: ``module.QualName`` of the model.
        library: Distribution and version, e.g. ``{"transformers": "5.24.0"}``.
        config_digest: sha256 of canonical JSON of the host's projection of its configuration.
        module_source: Class name of each replaced module to the sha256 of its source file.
        weights: ``trained`` or ``random``.
        checkpoint: Human-readable origin, e.g. ``sha256:<digest of files>`` or ``synthetic(seed, recipe)``.
    """

    name: str
    host_class: str
    library: dict[str, str]
    config_digest: str
    module_source: dict[str, str]
    weights: str
    checkpoint: str
