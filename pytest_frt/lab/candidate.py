"""The candidate: host, impl and kernel. Calibrates, binds and dumps what it computed; it judges nothing."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file

from pytest_frt.contracts.evidence import CandidateEvidence, Check
from pytest_frt.contracts.record import CalibrationFacts, FileDigest
from pytest_frt.contracts.seat import SeatFacts
from pytest_frt.lab import hosting, seam
from pytest_frt.lab.poison import FILLS, poisoned
from pytest_frt.lab.units import BoundUnit, bind, load_unit
from pytest_frt.registry import load_module
from pytest_frt.seat import lifecycle, swap
from pytest_frt.seat.artefact import save_artefact
from pytest_frt.spec import codec
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

    from pytest_frt.contracts.evidence import LedgerEntry
    from pytest_frt.contracts.job import CandidateJob
    from pytest_frt.seat.bind import BoundSeat


class SeamRun:
    """Runs every bound part at its bare seam and collects outputs and faults.

    Attributes:
        outputs: Evidence key to tensor.
        mutated: ``seat|case`` whose input changed during the call.
        poison: Seat ids whose outputs depend on unwritten memory.
        aliased: Seat ids that wrote again into a tensor they had returned.
        shapes: Seat ids with a wrong shape or dtype, with both.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, Tensor] = {}
        self.mutated: list[str] = []
        self.poison: list[str] = []
        self.aliased: list[str] = []
        self.shapes: list[str] = []

    def part(
        self, bound: BoundSeat, x: Tensor | None, cases: Iterable[tuple[str, Tensor]], band: tuple[int, int]
    ) -> None:
        """Run one bound seat on its real rows and its cases."""
        if x is not None:
            kept = x.clone()
            self._keep("real", bound, seam.run_real(bound.module, x, band))
            if not torch.equal(kept, x):
                self.mutated.append(f"{bound.facts.id}|real")
            self._poison(bound, x, band)
            self._aliasing(bound, x, band)
        for name, inputs in cases:
            kept = inputs.clone()
            outputs = seam.as_tuple(bound.module(inputs))
            if not torch.equal(kept, inputs):
                self.mutated.append(f"{bound.facts.id}|{name}")
            self._shape(bound, inputs, outputs, name)
            self._keep(f"case/{name}", bound, outputs)

    def _keep(self, prefix: str, bound: BoundSeat, outputs: tuple[Tensor, ...]) -> None:
        for index, output in enumerate(outputs):
            suffix = f"#{index}" if len(outputs) > 1 else ""
            self.outputs[f"{prefix}/{bound.facts.id}{suffix}"] = output.detach().clone().contiguous()

    def _poison(self, bound: BoundSeat, x: Tensor, band: tuple[int, int]) -> None:
        seen: list[tuple[Tensor, ...]] = []
        for fill in FILLS:
            with poisoned(fill):
                seen.append(tuple(t.clone() for t in seam.run_real(bound.module, x, band)))
        if not all(torch.equal(a, b) for a, b in zip(*seen, strict=True)):
            self.poison.append(bound.facts.id)

    def _aliasing(self, bound: BoundSeat, x: Tensor, band: tuple[int, int]) -> None:
        start, stop = next(iter(seam.splits(x.shape[0], band)))
        first = seam.as_tuple(bound.module(x[start:stop]))
        kept = tuple(t.clone() for t in first)
        bound.module(x[start:stop] + 1.0)
        if not all(torch.equal(a, b) for a, b in zip(kept, first, strict=True)):
            self.aliased.append(bound.facts.id)

    def _shape(self, bound: BoundSeat, x: Tensor, outputs: tuple[Tensor, ...], name: str) -> None:
        for output in outputs:
            if output.shape[:-1] != x.shape[:-1] or output.dtype != x.dtype:
                got = f"{tuple(output.shape)} {output.dtype}"
                self.shapes.append(f"{bound.facts.id}|{name}: {got} for input {tuple(x.shape)} {x.dtype}")


def distributions(before: set[str]) -> tuple[FileDigest, ...]:
    """Return torch and the third-party distributions imported since ``before``, each by its RECORD digest."""
    tops = {name.partition(".")[0] for name in set(sys.modules) - before} | {"torch"}
    owners = importlib.metadata.packages_distributions()
    names = sorted({dist for top in tops for dist in owners.get(top, []) if dist != "pytest-frt"})
    out = []
    for name in names:
        dist = importlib.metadata.distribution(name)
        text = dist.read_text("RECORD")
        if text is not None:
            digest = hashlib.sha256(text.encode()).hexdigest()
            out.append(FileDigest(f"dist/{name}-{dist.version}", digest))
    return tuple(out)


def _calibration(job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split) -> CalibrationFacts | None:
    scales = {seat: one for unit in units for seat, one in unit.scales.items()}
    if not scales:
        return None
    file = Path(job.out) / "scales.safetensors"
    count = len(drawn.calibration)
    save_artefact(file, scales, {"samples": count, "data": hosting.samples_digest(drawn.calibration)})
    return CalibrationFacts(
        artefact=FileDigest("calibration/scales.safetensors", file_digest(file)),
        method=f"amax per tensor, max within a sample, percentile across {count} samples",
        samples=count,
        data_digest=hosting.samples_digest(drawn.calibration),
        heldout_digest=hosting.samples_digest(drawn.heldout),
    )


def _host_pass(
    host: hosting.Hosting, job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split
) -> tuple[list[Tensor], tuple[LedgerEntry, ...]]:
    attachment = swap.attach(host.model, [seat for unit in units for seat in unit.bound])
    try:
        if job.form == "compiled":
            host.program.compile(host.model, job.phase)
            host.program.score(host.model, drawn.heldout[:1], job.phase)
            attachment.ledger.reset()
        scores = host.program.score(host.model, drawn.heldout, job.phase)
        return scores, attachment.ledger.entries()
    finally:
        attachment.detach()


def _lifecycle(
    host: hosting.Hosting, job: CandidateJob, units: Iterable[BoundUnit], drawn: hosting.Split
) -> tuple[Check, ...]:
    if not job.lifecycle:
        return ()
    seats = [seat for unit in units for seat in unit.bound]
    state = host.program.prepare(host.model, drawn.heldout[:1], job.phase)

    def execute() -> Tensor:
        return host.program.run(host.model, state)

    return lifecycle.run_battery(host.model, lambda: swap.attach(host.model, seats), execute)


@torch.no_grad()
def run(job: CandidateJob) -> None:
    """Fill ``job.out``; see ``contracts.evidence.CandidateEvidence`` for the files."""
    began, out, before = time.monotonic(), Path(job.out), set(sys.modules)
    host = hosting.build(job.host)
    drawn = hosting.split(host, job.host)
    seats = codec.loads(tuple[SeatFacts, ...], Path(job.seats).read_text())
    inputs = load_file(job.seam_inputs)

    def passes() -> list[Callable[[], object]]:
        return [partial(host.program.score, host.model, [sample], job.phase) for sample in drawn.calibration]

    units = [bind(host.model, load_unit(ref), seats, job.scales, passes) for ref in job.units]
    seam_run = SeamRun()
    for unit in units:
        cases = load_module(Path(unit.loaded.ref.structure_folder) / "cases.py")
        band = unit.loaded.ref.rows
        for bound in unit.bound:
            x = inputs.get(f"{job.phase}/{bound.facts.id}")
            seam_run.part(bound, x, seam.case_inputs(cases, bound.facts, band, job.case_seed), band)
    save_file(seam_run.outputs, out / "seam.safetensors")
    checks = _lifecycle(host, job, units, drawn)
    scores, ledger = _host_pass(host, job, units, drawn)
    save_file({str(i): score.contiguous() for i, score in enumerate(scores)}, out / "scores.safetensors")
    evidence = CandidateEvidence(
        bound=tuple(seat.facts.id for unit in units for seat in unit.bound),
        refused=tuple(refusal for unit in units for refusal in unit.refused),
        kernel={unit.loaded.ref.id: unit.loaded.facts for unit in units},
        closure=distributions(before),
        calibration=_calibration(job, units, drawn),
        ledger=ledger,
        mutated=tuple(seam_run.mutated),
        poison_differing=tuple(seam_run.poison),
        aliased=tuple(seam_run.aliased),
        shapes_wrong=tuple(seam_run.shapes),
        lifecycle=checks,
        seconds=time.monotonic() - began,
    )
    (out / "candidate.json").write_text(codec.dumps(evidence))
