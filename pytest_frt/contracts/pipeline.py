"""Stage pipelines as data, what a host tells of its stages, and what a conformance check finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_frt.contracts.structure import Limit

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pytest_frt.contracts.host import Sample


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage of a pipeline.

    Attributes:
        name: Stage name.
        cadence: What it runs once for: ``observation``, ``tick``, ``request``, ``token`` or ``generation_step``.
        summary: One sentence.
        optional: True when a host may lack it.
        fixed_steps: True when it is a loop whose number of steps does not depend on what is in it.
        capture: True when the pipeline gains nothing unless this stage can be captured.
    """

    name: str
    cadence: str
    summary: str
    optional: bool = False
    fixed_steps: bool = False
    capture: bool = False


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A tensor, or several that belong together, through which a value that varies enters, stays or leaves.

    Attributes:
        name: Window name.
        role: ``input``, ``noise``, ``state`` or ``output``; inputs and noises are what a host's samples hold.
        cadence: How often it changes, as for stages.
        summary: One sentence.
        optional: True when a host may lack it.
    """

    name: str
    role: str
    cadence: str
    summary: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A conformance name; the function of that name in conformance.py is what it means.

    Attributes:
        name: Name of the check and of its function.
        summary: One sentence: what holds when it holds.
        needs: Earlier checks; where one of them does not hold this one is not shown.
        limits: Thresholds its function takes as keywords, by their metric.
    """

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class ParitySpec:
    """Where a changed pipeline is compared with the eager host, and by which host metrics.

    Attributes:
        window: Output window.
        metrics: Names of host metrics.
        same: Windows that both sides get alike.
    """

    window: str
    metrics: tuple[str, ...]
    same: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One stage pipeline of the catalog.

    Attributes:
        name: Catalog name.
        version: Integer; a change of meaning raises it.
        summary: One sentence.
        stages: In the order they run.
        windows: Everything that varies.
        embeds: Structures that sit in its stages.
        parity: Where it is compared.
        checks: Conformance, in the order it is asked.
        digest: sha256 of the yaml bytes.
        conformance_digest: sha256 of conformance.py.
        folder: Absolute path of the entry.
    """

    name: str
    version: int
    summary: str
    stages: tuple[StageSpec, ...]
    windows: tuple[WindowSpec, ...]
    embeds: tuple[str, ...]
    parity: ParitySpec
    checks: tuple[CheckSpec, ...]
    digest: str
    conformance_digest: str
    folder: str


@dataclass(frozen=True, slots=True)
class Holds:
    """The check was carried out and holds.

    Attributes:
        detail: What was seen.
        measured: The numbers behind it.
    """

    detail: str
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broken:
    """The check was carried out and does not hold.

    Attributes:
        reason: Stable word.
        detail: What was seen and what was wanted.
        measured: The numbers behind it.
    """

    reason: str
    detail: str
    measured: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotShown:
    """The check could not be carried out, which says nothing for the host."""

    why: str


Finding = Holds | Broken | NotShown


@dataclass(frozen=True, slots=True)
class Loop:
    """The call that a fixed-step loop makes once per step.

    Attributes:
        path: Module that is called, or whose method is.
        steps: Calls per tick, as the host's own configuration has it.
        moving: Arguments that are another value in each step; all others are the condition.
        method: ``forward`` for the module itself.
    """

    path: str
    steps: int
    moving: tuple[str, ...]
    method: str = "forward"


@dataclass(frozen=True, slots=True)
class Blocker:
    """Something in a step of the loop that a graph cannot capture, and that is known.

    Attributes:
        op: Name of the operation, e.g. ``aten._local_scalar_dense``.
        per_step: How often a step runs it.
        because: What it is for.
    """

    op: str
    per_step: int
    because: str


@dataclass(frozen=True, slots=True)
class TickStages:
    """A host that answers an observation and a noise by a fixed number of steps.

    Attributes:
        model: The host.
        modules: Stage to modules that are called whenever it runs; a stage of the pipeline that is left out is not on
            this host.
        windows: Input or noise window to the names that a sample has for it.
        samples: Two observations that differ, each with its noise.
        run: One whole tick over a sample, from nothing: the chunk of actions ``[actions, numbers]``.
        loop: The call of one step.
        blockers: What stands between the loop and its capture.
    """

    model: nn.Module
    modules: Mapping[str, tuple[str, ...]]
    windows: Mapping[str, tuple[str, ...]]
    samples: tuple[Sample, Sample]
    run: Callable[[Sample], Tensor]
    loop: Loop
    blockers: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class Buckets:
    """Row counts for which a host has captured its step.

    Attributes:
        rows: Row counts, ascending.
        run: Like ``step`` of the host, through the bucket that the rows fit or else the host's own step.
        fallbacks: How often the latter was run so far.
    """

    rows: tuple[int, ...]
    run: Callable[[Any, int], tuple[Tensor, Any]]
    fallbacks: Callable[[], int]


@dataclass(frozen=True, slots=True)
class DecodeStages:
    """A host that reads a request into a state and then answers token by token.

    A state is the host's own; no callable here changes the one that it is given.

    Attributes:
        model: The host.
        modules: Stage to modules that are called whenever it runs; for prefill and decode the decoder blocks. A stage
            with none is done by the caller.
        windows: Input window to the names that a sample has for it.
        samples: Two requests that differ.
        vocabulary: Tokens there are.
        read: The state after the beginning of a request.
        step: Logits ``[rows, V]`` of the next tokens of the request, and the state after them.
        whole: The same logits by one pass over the request from its beginning, without a state.
        lengths: Positions that each layer of a state has taken in.
        held: Keys and values that a state holds, ``[..., positions, width]`` each.
        select: Logits ``[rows, V]`` to a token per row.
        buckets: Captured row counts; None where nothing is captured.
    """

    model: nn.Module
    modules: Mapping[str, tuple[str, ...]]
    windows: Mapping[str, tuple[str, ...]]
    samples: tuple[Sample, Sample]
    vocabulary: int
    read: Callable[[Sample], Any]
    step: Callable[[Any, int], tuple[Tensor, Any]]
    whole: Callable[[Any, int], Tensor]
    lengths: Callable[[Any], tuple[int, ...]]
    held: Callable[[Any], tuple[Tensor, ...]]
    select: Callable[[Tensor], Tensor]
    buckets: Buckets | None = None
