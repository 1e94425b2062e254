"""The candidate: host, impl and kernel. Calibrates, binds and dumps what it computed; it judges nothing."""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file

from pytest_frt.contracts.evidence import CandidateEvidence, Check
from pytest_frt.contracts.record import CalibrationFacts, FileDigest
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.contracts.verdict import Measured, Refusal
from pytest_frt.lab import calls, hosting, seam
from pytest_frt.lab.census import CHECK, Census
from pytest_frt.lab.closure import distributions
from pytest_frt.lab.kernel_use import KernelUse
from pytest_frt.lab.probes import probes
from pytest_frt.lab.seam_run import SeamRun
from pytest_frt.lab.store import CAP_BYTES
from pytest_frt.lab.units import BoundUnit, bind, load_unit
from pytest_frt.registry import load_module
from pytest_frt.seat import lifecycle, swap
from pytest_frt.seat.artefact import save_artefact
from pytest_frt.seat.weights import WeightHasher
from pytest_frt.spec import codec
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torch import Tensor

    from pytest_frt.contracts.evidence import LedgerEntry
    from pytest_frt.contracts.job import CandidateJob


def _calibration(job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split) -> CalibrationFacts | None:
    scales = {seat: one for unit in units for seat, one in unit.scales.items()}
    if not scales:
        return None
    file = Path(job.out) / "scales.safetensors"
    surveys = [unit.survey for unit in units if unit.survey]
    count = min((one.samples for one in surveys), default=0)
    notes = [note for one in surveys for note in one.notes()]
    said = {"notes": "; ".join(notes)} if notes else {}
    more = f"; {notes[0]}, {len(notes) - 1} more such notes in the artefact" if notes else ""
    save_artefact(file, scales, {"samples": count, "data": hosting.samples_digest(drawn.calibration), **said})
    return CalibrationFacts(
        artefact=FileDigest("calibration/scales.safetensors", file_digest(file)),
        method=f"amax per tensor, max within a sample, percentile across {count} samples{more}",
        samples=count,
        data_digest=hosting.samples_digest(drawn.calibration),
        heldout_digest=hosting.samples_digest(drawn.heldout),
    )


def _host_pass(
    host: hosting.Hosting, job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split
) -> tuple[list[Tensor], list[Tensor], tuple[LedgerEntry, ...]]:
    """Return the held-out scores, then those of the probes through the same seats; the ledger counts the first."""
    attachment = swap.attach(host.model, [seat for unit in units for seat in unit.bound])
    try:
        if job.form == "compiled":
            host.program.compile(host.model, job.phase)
            host.program.score(host.model, drawn.heldout[:1], job.phase)
            attachment.ledger.reset()
        scores = host.program.score(host.model, drawn.heldout, job.phase)
        counted = attachment.ledger.entries()
        return scores, host.program.score(host.model, probes(host, drawn, job.phase), job.phase), counted
    finally:
        attachment.detach()


def _lifecycle(
    host: hosting.Hosting, job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split
) -> tuple[Check, ...]:
    seats = [seat for unit in units for seat in unit.bound]
    state = host.program.prepare(host.model, drawn.heldout[:1], job.phase)

    def execute() -> Tensor:
        return host.program.run(host.model, state)

    return lifecycle.run_battery(host.model, lambda: swap.attach(host.model, seats), execute)


def _checks(
    host: hosting.Hosting, job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split, untouched: Check
) -> tuple[Check, ...]:
    """Return the contract checks; in a process whose functions were changed the battery would show nothing."""
    if not job.lifecycle:
        return ()
    return (*_lifecycle(host, job, units, drawn), untouched) if untouched.ok else (untouched,)


def _seams(job: CandidateJob, units: Iterable[BoundUnit], inputs: Mapping[str, Tensor]) -> SeamRun:
    seam_run = SeamRun()
    for unit in units:
        cases = load_module(Path(unit.loaded.ref.structure_folder) / "cases.py")
        band, names = unit.loaded.ref.rows, [tensor.name for tensor in unit.loaded.structure.inputs]
        for bound in unit.bound:
            real = calls.read(inputs, job.phase, bound.facts.id, len(names))
            seam_run.part(bound, real, calls.case_calls(cases, bound.facts, names, band, job.case_seed), band)
    return seam_run


def _indexed(unit: BoundUnit) -> BoundUnit:
    """Refuse seats whose tallest call has tensors that no case is large enough for: offsets of 32 bits wrap there."""
    kept, refused = [], []
    for seat in unit.bound:
        elements = seam.largest_index(unit.loaded.ref.rows, seat.facts.dims)
        if elements < seam.INDEX_LIMIT:
            kept.append(seat)
            continue
        measured = Measured("elements", elements, "<", seam.INDEX_LIMIT, 1, at=seat.facts.id)
        detail = f"{unit.loaded.ref.rows[1]} rows make a tensor of {elements} elements, judged below {seam.INDEX_LIMIT}"
        refused.append(Refusal("bind", "index_width", detail, at=seat.facts.id, measured=(measured,)))
    return replace(unit, bound=tuple(kept), refused=(*unit.refused, *refused))


def _untouched(census: Census) -> Check:
    changed = census.changed()
    detail = f"impl code changed {', '.join(changed)}" if changed else "Functions, hooks and settings of others stay."
    return Check(CHECK, not changed, detail)


def _write(out: Path, evidence: CandidateEvidence) -> None:
    (out / "candidate.json").write_text(codec.dumps(evidence))


def _seam_evidence(host: hosting.Hosting, units: Iterable[BoundUnit], seam_run: SeamRun) -> CandidateEvidence:
    bound = [seat.facts for unit in units for seat in unit.bound]
    hasher = WeightHasher()
    return replace(
        seam_run.evidence(facts.id for facts in bound),
        refused=tuple(refusal for unit in units for refusal in unit.refused),
        kernel={unit.loaded.ref.id: unit.loaded.facts for unit in units},
        weights={facts.id: hasher.digest(host.model, facts) for facts in bound},
    )


@torch.no_grad()
def run(job: CandidateJob) -> None:
    """Fill ``job.out``; see ``contracts.evidence.CandidateEvidence`` for the files.

    Evidence of the seams is written before the host is run: should the host then die of what a seat returned, the
    seams say why. Nothing is composed with a seat that this process saw misbehave.
    """
    began, out = time.monotonic(), Path(job.out)
    host = hosting.build(job.host)
    drawn = hosting.split(host, job.host)
    seats = codec.loads(tuple[SeatFacts, ...], Path(job.seats).read_text())
    inputs = load_file(job.seam_inputs)

    def passes() -> list[Callable[[], object]]:
        return [partial(host.program.score, host.model, [sample], job.phase) for sample in drawn.calibration]

    resource.setrlimit(resource.RLIMIT_FSIZE, (CAP_BYTES, CAP_BYTES))  # a log must not fill the disk either
    before, census, use = set(sys.modules), Census(host.model), KernelUse()
    units = [_indexed(bind(host.model, use.watch(load_unit(ref)), seats, job.scales, passes)) for ref in job.units]
    seam_run = _seams(job, units, inputs)
    units, untouched = use.judged(units), _untouched(census)
    save_file(seam_run.outputs, out / "seam.safetensors")
    calibration, closure = _calibration(job, units, drawn), distributions(before, [unit.loaded.impl for unit in units])
    evidence = replace(_seam_evidence(host, units, seam_run), calibration=calibration, closure=closure)
    _write(out, evidence)
    if seam_run.faulty or not evidence.bound:
        return
    checks = _checks(host, job, units, drawn, untouched)
    scores, followed, ledger = _host_pass(host, job, units, drawn)
    for name, found in (("scores", scores), ("probes", followed)):
        save_file({str(i): score.contiguous() for i, score in enumerate(found)}, out / f"{name}.safetensors")
    seconds = time.monotonic() - began
    _write(out, replace(evidence, ledger=ledger, lifecycle=checks, seconds=seconds, composed=True))
