"""Proven records and plans: every number and byte a certificate will state, gathered from the evidence that passed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_frt.cell import RecordKey
from pytest_frt.certs import store
from pytest_frt.contracts.record import FileDigest, PlanRecord, Record, SeatRecord
from pytest_frt.devices.probe import matches, present_facts
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.store import writing
from pytest_frt.measure.timing import summarise
from pytest_frt.rules import rows
from pytest_frt.run import evidence
from pytest_frt.seat.kernel_build import read_build
from pytest_frt.spec.digest import file_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_frt.contracts.device import DeviceFacts
    from pytest_frt.contracts.job import UnitRef
    from pytest_frt.contracts.record import GateRow
    from pytest_frt.contracts.timing import TimingEvidence
    from pytest_frt.registry import Registry
    from pytest_frt.run.plan import RecordPlan
    from pytest_frt.run.settle import Settled
    from pytest_frt.run.stages import Tried, Witnessed

DISTRIBUTION = "pytest-frt"
COMPUTES_WITH = ("torch", "kernels", "safetensors", "numpy")
"""Distributions whose version is stated of every record."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What is common to every proof of a run."""

    registry: Registry
    threads: int
    seed: int


def checker() -> FileDigest:
    """Return our distribution's version and one digest over our own python sources."""
    folder = Path(__file__).resolve().parent.parent
    sha = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        sha.update(f"{file.relative_to(folder).as_posix()}\0{file_digest(file)}\n".encode())
    return FileDigest(f"{DISTRIBUTION}-{importlib.metadata.version(DISTRIBUTION)}", sha.hexdigest())


def device_facts(kind: str, threads: int) -> DeviceFacts:
    """Return the present machine as the workers ran on it."""
    facts = present_facts(kind)
    return replace(facts, threads=threads) if kind == "cpu" else facts


def _stated_facts(bench: Bench, device: str, kind: str) -> DeviceFacts:
    """Return the facts of the present machine, which is the device that a statement will name.

    Raises:
        EvidenceError: it is another one: what was judged in its place is stated of nothing.
    """
    facts = device_facts(kind, bench.threads)
    if differs := matches(bench.registry.device(device).spec, facts):
        raise EvidenceError(f"nothing can be stated of {device} here: {differs}", hint="run on the device itself")
    return facts


def software() -> dict[str, str]:
    """Return the versions of what every record computes with."""
    return {name: importlib.metadata.version(name) for name in COMPUTES_WITH}


def _subjects(bench: Bench, record: RecordPlan, tried: Tried) -> tuple[FileDigest, ...]:
    build = read_build(record.unit.kernel_repo, Path(record.unit.kernel_path))
    kernel = tuple(FileDigest(f"kernel/{file.name}", file.sha256) for file in build.files)
    return (
        *kernel,
        *(FileDigest(name, file_digest(file)) for name, file in bench.registry.files(record.key.cell).items()),
        *tried.evidence.closure,
    )


def _seats(units: Sequence[UnitRef], witnessed: Witnessed, tried: Tried) -> tuple[SeatRecord, ...]:
    from pytest_frt.seat.artefact import load_artefact

    scales = load_artefact(tried.scales) if tried.scales else {}
    facts = {seat.id: seat for seat in witnessed.evidence.seats}
    chosen = [seat for unit in units for seat in unit.seats]
    return tuple(
        SeatRecord(
            facts[seat],
            witnessed.evidence.weights[seat],
            {point: rows.decimal(value) for point, value in scales[seat].by_point.items()} if seat in scales else {},
        )
        for seat in chosen
    )


def _parity_rows(settled: Settled, tried: Tried) -> tuple[GateRow, ...]:
    limits = {seat: tried.limits[unit.id] for unit in settled.units for seat in unit.seats}
    return (
        *rows.seam_rows(tried.parity.seam, settled.survivors, limits),
        *rows.pooled_rows(tried.parity.pooled, settled.survivors, limits),
    )


def _host_rows(settled: Settled, tried: Tried, witnessed: Witnessed) -> tuple[GateRow, ...]:
    if witnessed.evidence.host.weights != "trained":
        return ()
    band = getattr(settled.verdicts["parity"], "band", "pass")
    return rows.host_rows(witnessed.evidence.host_output, tried.parity.host, band=band)


def ratios(timing: TimingEvidence) -> tuple[tuple[float, ...], ...]:
    """Return the unit ratios of every process, as a record will hold them."""
    return tuple(tuple(process) for process in rows.rounded(summarise(timing).worker))


def _win_row(timing: TimingEvidence) -> GateRow:
    return rows.net_win_row(rows.rounded(summarise(timing).worker))


def record_of(
    bench: Bench,
    record: RecordPlan,
    settled: Settled,
    tried: Tried,
    witnessed: Witnessed,
    timing: TimingEvidence,
    pairs: FileDigest,
) -> Record:
    """State one record that passed every gate; ``pairs`` is where its timing was kept.

    Raises:
        EvidenceError: the present machine is not the record's device.
    """
    found, cell = tried.evidence, record.key.cell
    facts = _stated_facts(bench, cell.device, record.host.request.device)
    phase = record.key.phase
    gates = (
        *rows.null_rows(witnessed.evidence.null, phase),
        *rows.seat_rows(settled.survivors),
        *_parity_rows(settled, tried),
        *_host_rows(settled, tried, witnessed),
        *rows.ledger_rows(found.ledger, settled.survivors),
        *rows.contract_rows(found.lifecycle),
        _win_row(timing),
    )
    refused = {refusal.at: f"{gate}: {refusal.reason}" for gate, some in settled.refused.items() for refusal in some}
    return Record(
        key=record.key,
        structure_version=bench.registry.structure(cell.structure).spec.version,
        impl_version=bench.registry.impl(cell.structure, cell.impl).impl.version,
        subjects=_subjects(bench, record, tried),
        kernel=found.kernel[record.unit.id],
        host=witnessed.evidence.host,
        device=facts,
        software=software(),
        seats=_seats(settled.units, witnessed, tried),
        refused={at: why for at, why in refused.items() if at},
        rows=record.unit.rows,
        dtype=next(s.dtype for s in witnessed.evidence.seats if s.id in settled.survivors),
        calibration=found.calibration,
        gates=gates,
        attempts=timing.attempt,
        seed=bench.seed,
        evidence=(
            FileDigest("evidence/parity.json", file_digest(tried.folder / "parity.json")),
            FileDigest(evidence.BOUND, pairs.sha256),
        ),
        checker=checker(),
    )


def keep(out: Path, record: RecordPlan, tried: Tried) -> None:
    """Copy what a certificate names by digest, the timing left out, below the output folder.

    Raises:
        StorageFault: a file cannot be written.
    """
    cell = record.key.cell
    if tried.scales:
        store.write_artefact(out, cell.host, cell.device, Path(tried.scales).read_bytes())
    folder = evidence.folder(out, record.id)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tried.folder / "parity.json", folder / "parity.json")


def plan_of(
    bench: Bench,
    name: str,
    keys: Sequence[str],
    dropped: Mapping[str, str],
    settled: Settled,
    witnessed: Witnessed,
    timing: TimingEvidence,
    *,
    device: str,
) -> PlanRecord:
    """State one union that passed; ``members`` hold record key ids until the controller knows the payload digests.

    Raises:
        EvidenceError: the present machine is not the device of a member.
    """
    (named,) = {RecordKey.parse(key).cell.device for key in keys}
    facts, tried = _stated_facts(bench, named, device), settled.tried
    if tried is None:
        raise ValueError("a union without a try has nothing to state")
    gates = (
        *_host_rows(settled, tried, witnessed),
        *rows.ledger_rows(tried.evidence.ledger, settled.survivors),
        _win_row(timing),
    )
    return PlanRecord(
        name=name,
        members=tuple(keys),
        keys=tuple(keys),
        dropped=dict(dropped),
        gates=gates,
        host=witnessed.evidence.host,
        device=facts,
        software=software(),
        attempts=timing.attempt,
        seed=bench.seed,
        checker=checker(),
    )
