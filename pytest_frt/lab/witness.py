"""The witness: host and references, no impl. Null control, seats, run-time facts, seam inputs, expected outputs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from pytest_frt.contracts.evidence import CallFacts, NullControl, WitnessEvidence
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.errors import CheckpointError
from pytest_frt.lab import calls, hosting
from pytest_frt.lab.probes import probes, reseeded
from pytest_frt.lab.seam import row_limit
from pytest_frt.lab.taps import frozen, tapping, zeroed
from pytest_frt.measure.metrics import host_metrics
from pytest_frt.seat.discover import discover
from pytest_frt.seat.hostfacts import host_facts
from pytest_frt.seat.observe import observe, split
from pytest_frt.seat.weights import WeightHasher
from pytest_frt.spec import codec
from pytest_frt.spec.digest import file_digest
from pytest_frt.spec.load import load_structure

if TYPE_CHECKING:
    from torch import Tensor

    from pytest_frt.contracts.evidence import HostMetrics
    from pytest_frt.contracts.host import Checkpoint, Sample
    from pytest_frt.contracts.job import WitnessJob
    from pytest_frt.lab.hosting import Hosting
    from pytest_frt.lab.taps import SeatTap

ROWS_PER_CALL = 8
"""Rows kept of one call: a decode call has at most 8, so short calls are kept whole."""
ZEROED_SAMPLES = 1
"""Samples of the zeroed-seat control, per structure: one that does not collapse shows a blind host gate."""


def _label(checkpoint: Checkpoint) -> str:
    if checkpoint.kind == "synthetic":
        return checkpoint.recipe
    return "sha256:" + ",".join(file_digest(Path(name)) for name in checkpoint.files)


def _labelled(checkpoint: Checkpoint) -> Future[str]:
    """Begin to hash a checkpoint: reading and hashing files leaves the interpreter to everything else."""
    pool = ThreadPoolExecutor(1)
    label = pool.submit(_label, checkpoint)
    pool.shutdown(wait=False)
    return label


def compare_checkpoint(model: nn.Module, checkpoint: Checkpoint) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Compare every tensor of the loaded host with its checkpoint files, bit for bit after the dtype cast.

    Returns:
        Count of compared tensors, names that differ, host tensors without a counterpart.

    Raises:
        CheckpointError: a file cannot be read.
    """
    if checkpoint.kind == "synthetic":
        return 0, (), ()
    state, differing, seen = model.state_dict(), [], set()
    to_host: dict[str, list[str]] = {}
    for name in state:
        to_host.setdefault(checkpoint.renames.get(name, name), []).append(name)
    for file in checkpoint.files:
        try:
            reader = safe_open(file, framework="pt")
        except (OSError, ValueError) as fault:
            raise CheckpointError(
                f"checkpoint {file} cannot be read: {fault}", hint="give a complete safetensors file"
            ) from fault
        with reader as tensors:
            for stored in tensors.keys():  # noqa: SIM118 (safetensors' reader is no mapping)
                for name in to_host.get(stored, ()):
                    seen.add(name)
                    if not torch.equal(tensors.get_tensor(stored).to(state[name].dtype), state[name]):
                        differing.append(name)
    return len(seen), tuple(differing), tuple(name for name in state if name not in seen)


def repeat_control(
    host: Hosting, sample: list[Sample], phases: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Run the host twice per phase on the same windows.

    Returns:
        Phases that differ in any bit, phases in which the global random state moved.
    """
    differing, rng = [], []
    for phase in phases:
        state = host.program.prepare(host.model, sample, phase)
        before = torch.get_rng_state()
        first = host.program.run(host.model, state).clone()
        if not torch.equal(before, torch.get_rng_state()):
            rng.append(phase)
        if not torch.equal(first, host.program.run(host.model, state)):
            differing.append(phase)
    return tuple(differing), tuple(rng)


def _call_facts(phase: str, taps: dict[str, SeatTap], called: set[str]) -> list[CallFacts]:
    """Return the calls of a scored pass; of a seat that an execution of the phase does not call, none.

    Scoring may do more than the phase: a decoder fills its cache before its first step.
    """
    counts = {seat: tap.by_rows if seat in called else Counter[int]() for seat, tap in taps.items()}
    return [
        CallFacts(seat, phase, found.total(), {str(rows): n for rows, n in sorted(found.items())}, taps[seat].dtype)
        for seat, found in counts.items()
    ]


def _called(host: Hosting, seats: tuple[SeatFacts, ...], sample: list[Sample], phase: str) -> set[str]:
    """Execute a phase once and return the seats that it calls."""
    state = host.program.prepare(host.model, sample, phase)
    with tapping(host.model, seats, (0, 0), 0, torch.Generator()) as taps:
        host.program.run(host.model, state)
    return {seat for seat, tap in taps.items() if tap.by_rows}


Spoil = Callable[[nn.Module, Iterable[SeatFacts]], AbstractContextManager[None]]


def _control(
    spoil: Spoil, host: Hosting, seats: Iterable[SeatFacts], samples: list[Sample], phase: str, scores: list[Tensor]
) -> dict[str, tuple[HostMetrics, ...]]:
    """Score the host with the seats of one structure after the other spoiled."""
    by_structure: dict[str, list[SeatFacts]] = {}
    for seat in seats:
        by_structure.setdefault(seat.structure, []).append(seat)
    out: dict[str, tuple[HostMetrics, ...]] = {}
    for structure, members in by_structure.items():
        with spoil(host.model, members):
            got = host.program.score(host.model, samples, phase)
        out[f"{phase}/{structure}"] = _compared(host, got, scores)
    return out


def _compared(host: Hosting, got: list[Tensor], scores: list[Tensor]) -> tuple[HostMetrics, ...]:
    pairs = zip(got, scores, strict=False)
    return tuple(host_metrics(g, want, host.spec.output, index) for index, (g, want) in enumerate(pairs))


@dataclass(frozen=True, slots=True)
class Controls:
    """What shows that host parity in one phase would see a fault; see ``WitnessEvidence``."""

    zeroed: dict[str, tuple[HostMetrics, ...]]
    frozen: dict[str, tuple[HostMetrics, ...]]
    spread: tuple[HostMetrics, ...]


def _controls(
    host: Hosting, seats: list[SeatFacts], drawn: hosting.Split, phase: str, scores: list[Tensor], job: WitnessJob
) -> Controls:
    """Run the controls of one phase, and leave what the probes must come to."""
    few = probes(host, drawn, phase)
    expected = host.program.score(host.model, few, phase)
    _save(Path(job.out) / f"probes.{phase}.safetensors", expected)
    blank = _control(zeroed, host, seats, drawn.heldout[:ZEROED_SAMPLES], phase, scores)
    # The first observation gives the answers that are repeated: it says nothing where each is one call.
    still = {at: found[-1:] for at, found in _control(frozen, host, seats, few, phase, expected).items()}
    spread: tuple[HostMetrics, ...] = ()
    if host.spec.multimodal:
        other = reseeded(host, drawn.heldout, job.host.request.seed)
        spread = _compared(host, host.program.score(host.model, other, phase), scores)
    return Controls(blank, still, spread)


def _save(file: Path, scores: list[Tensor]) -> None:
    save_file({str(index): score.contiguous() for index, score in enumerate(scores)}, file)


def _watched(
    host: Hosting,
    seats: tuple[SeatFacts, ...],
    drawn: hosting.Split,
    phase: str,
    seam_rows: int,
    generator: torch.Generator,
    inputs: Mapping[str, int],
) -> tuple[list[Tensor], dict[str, SeatTap], dict[str, Tensor]]:
    """Return the held-out scores of one phase, what the seats were called with, and rows of it for their seams."""
    regime = hosting.phase_of(host.spec, phase).rows
    # A candidate is fed whole calls: at least as many rows as the regime's lowest call has.
    per_call = max(ROWS_PER_CALL, -(-regime[0] // len(drawn.heldout)))
    with tapping(host.model, seats, regime, per_call, generator, inputs) as taps:
        scores = host.program.score(host.model, drawn.heldout, phase)
    kept: dict[str, Tensor] = {}
    for seat in seats:
        groups = taps[seat.id].groups(row_limit(seat, max(seam_rows, regime[0])), generator)
        kept |= dict(calls.saved(phase, seat.id, groups))
    return scores, taps, kept


def libraries(before: set[str]) -> tuple[str, ...]:
    """Return the modules imported since ``before`` that any process can import by name, in order of import."""
    own = (hosting.__name__.partition(".")[0], "frt_entry_")
    return tuple(
        name
        for name, module in sys.modules.items()
        if name not in before and not name.startswith(own) and getattr(module, "__spec__", None) is not None
    )


@torch.no_grad()
def run(job: WitnessJob) -> None:
    """Fill ``job.out``; see ``contracts.evidence.WitnessEvidence`` for the files."""
    began, out, before = time.monotonic(), Path(job.out), set(sys.modules)
    host = hosting.build(job.host)
    drawn = hosting.split(host, job.host)
    checkpoint = host.program.checkpoint(job.host.request)
    labelled = _labelled(checkpoint)
    null = NullControl(
        *compare_checkpoint(host.model, checkpoint), *repeat_control(host, drawn.heldout[:1], job.judged)
    )
    structures = [load_structure(Path(folder)) for folder in job.structures]
    seats, not_replaced = discover(host.model, structures, host.spec)

    called: dict[str, set[str]] = {}

    def deployed() -> None:
        called.update({phase: _called(host, seats, drawn.heldout[:1], phase) for phase in job.judged})

    seats, unserved = split(seats, observe(host.model, deployed, seats, structures))
    generator = torch.Generator().manual_seed(job.seed)
    inputs = {structure.name: len(structure.inputs) for structure in structures}
    made: list[CallFacts] = []
    seam: dict[str, Tensor] = {}
    controls: dict[str, Controls] = {}
    for phase, judged in job.judged.items():
        scores, taps, rows = _watched(host, seats, drawn, phase, job.seam_rows, generator, inputs)
        made += _call_facts(phase, taps, called[phase])
        seam |= rows
        _save(out / f"scores.{phase}.safetensors", scores)
        members = [seat for seat in seats if seat.structure in judged]
        controls[phase] = _controls(host, members, drawn, phase, scores, job)
    save_file(seam, out / "seam_inputs.safetensors")
    (out / "seats.json").write_text(codec.dumps(seats))
    facts = host_facts(
        host.model,
        name=host.spec.name,
        projection=host.program.projection(host.model),
        seats=seats,
        weights=host.spec.weights[job.host.request.size],
        checkpoint=labelled.result(),
    )
    hasher = WeightHasher()
    evidence = WitnessEvidence(
        host=facts,
        host_output=host.spec.output,
        null=null,
        seats=seats,
        not_replaced=(*not_replaced, *unserved),
        calls=tuple(made),
        weights={seat.id: hasher.digest(host.model, seat) for seat in seats},
        heldout_digest=hosting.samples_digest(drawn.heldout),
        calibration_digest=hosting.samples_digest(drawn.calibration),
        parameters=sum(parameter.numel() for parameter in host.model.parameters()),
        zeroed={at: found for one in controls.values() for at, found in one.zeroed.items()},
        seconds=time.monotonic() - began,
        libraries=libraries(before),
        frozen={at: found for one in controls.values() for at, found in one.frozen.items()},
        spread={phase: one.spread for phase, one in controls.items() if one.spread},
    )
    (out / "witness.json").write_text(codec.dumps(evidence))
