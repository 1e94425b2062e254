"""The end of a run, in the controller: statements are sealed and the JSON report is written."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_frt.certs import store
from pytest_frt.certs.files import check_replaceable, storage, write_atomic
from pytest_frt.errors import CertificateRefused, FrtError, StorageFault, UsageFault
from pytest_frt.report import benchmarks, document, html
from pytest_frt.report.beside import LAST_REPORT, Beside, Compared
from pytest_frt.report.collected import Collected
from pytest_frt.report.compare import of_document
from pytest_frt.report.lines import Rerun
from pytest_frt.report.waived import Standing, World
from pytest_frt.run.config import RunConfig
from pytest_frt.run.plan import RunPlan
from pytest_frt.run.seal import Sealed, seal

ROOM_BYTES = 1 << 20
"""Statement, evidence and timing of one record stay below this."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of a run.

    Attributes:
        files: Record key id or plan name to the certificate or statement that was written.
        keyid: Key id that signed; empty when unsigned.
        notes: Sentences for the summary: what was withheld, or could not be written.
        exit_code: The run's exit code.
        waivers: What became of each waiver.
        compared: This run beside an earlier one; None where none was asked for.
    """

    files: dict[str, Path]
    keyid: str
    notes: tuple[str, ...]
    exit_code: int
    waivers: tuple[Standing, ...] = ()
    compared: Compared | None = None


def check_room(out: Path) -> None:
    """Write and remove what a certified record may leave in the output directory.

    Raises:
        StorageFault: the directory cannot be written, or is nearly full.
    """
    probe = out / f".room-{os.getpid()}"
    with storage(probe):
        out.mkdir(parents=True, exist_ok=True)
        try:
            probe.write_bytes(bytes(ROOM_BYTES))
        finally:
            probe.unlink(missing_ok=True)


def end(collected: Collected, settings: RunConfig, plan: RunPlan, rerun: Rerun, beside: Beside, world: World) -> Ending:
    """State what was proven and write the reports; a fault becomes a note and an exit code."""
    waivers = beside.standings(world)
    notes = [f"{name}: nothing is stated, {why}" for name, why in collected.withheld()]
    notes += [beside.note] if beside.note else []
    faults = _planted(settings, collected.began)
    sealed = _seal(collected, settings, faults)
    if sealed.withheld:
        faults.append(CertificateRefused("WITHHELD", f"{len(sealed.withheld)} statements could not be made"))
    faults += [fault for one in waivers if (fault := one.fault)]
    faults += _benchmarks(collected, Path(settings.out))
    notes += [f"{name}: nothing is stated, {why}" for name, why in sealed.withheld.items()]
    notes += [fault.diagnostics() for fault in faults]
    ending = Ending(sealed.files, sealed.keyid, tuple(notes), _code(collected, settings, faults), waivers)
    if not collected.spoken and not (settings.json or settings.html):
        return ending
    now = of_document(document.build(collected, settings, plan, rerun, ending), "this run")
    if (compared := beside.compared(now)) is not None:
        collected.note_worse(compared.changes)
        worse = [compared.fault] if compared.fault else []
        faults += worse
        ending = replace(_with(ending, worse, _code(collected, settings, faults)), compared=compared)
    late = _write(settings, document.dumps(document.build(collected, settings, plan, rerun, ending)))
    return _with(ending, late, _code(collected, settings, [*faults, *late]))


def _planted(settings: RunConfig, began: float) -> list[FrtError]:
    """Return a fault when statements appeared that this run did not write: a person would sign them with the others."""
    planted = store.changed_since(settings.out, began)
    if not planted:
        return []
    names = ", ".join(map(str, planted))
    hint = "look at them before you sign or ship anything here; no other run may write to the directory meanwhile"
    said = f"{names} appeared during the run, and no gate stands behind them"
    return [CertificateRefused("PLANTED", said, hint=hint)]


def _with(ending: Ending, more: Sequence[FrtError], code: int) -> Ending:
    return replace(ending, notes=(*ending.notes, *(fault.diagnostics() for fault in more)), exit_code=code)


def _benchmarks(collected: Collected, out: Path) -> list[FrtError]:
    """Write the samples of the run for pytest-benchmark and return what went wrong."""
    try:
        benchmarks.write(out, [one for gates in collected.gates.values() for one in gates.values()])
    except FrtError as fault:
        return [fault]
    return []


def _write(settings: RunConfig, report: bytes) -> list[FrtError]:
    """Write the reports that were asked for and return what went wrong; the page is made of the written text."""
    late: list[FrtError] = []
    last = str(Path(settings.out) / LAST_REPORT)
    for path, make in ((settings.json, bytes), (settings.html, _page), (last, bytes)):
        try:
            if path:
                check_replaceable(Path(path))
                write_atomic(Path(path), make(report))
        except (StorageFault, UsageFault) as fault:
            late.append(fault)
    return late


def _page(report: bytes) -> bytes:
    return html.render(json.loads(report))


def _code(collected: Collected, settings: RunConfig, faults: list[FrtError]) -> int:
    """Return the exit code; a fault in writing weighs more than what was proven, less than what was refused."""
    code = collected.exit_code(timing=settings.timing)
    return code if code == 1 or not faults else max(fault.exit_code for fault in faults)


def _seal(collected: Collected, settings: RunConfig, faults: list[FrtError]) -> Sealed:
    """Seal; without a key that cannot be used, and below a temporary directory when the output cannot be written."""
    proven, plans = collected.proven(), collected.plans()
    for config in (settings, replace(settings, sign_key=None)):
        try:
            return seal(proven, plans, config, collected.kept)
        except StorageFault as fault:
            faults.append(fault)
            break
        except FrtError as fault:
            faults.append(fault)
    try:
        return seal(
            proven, plans, replace(settings, sign_key=None, out=tempfile.mkdtemp(prefix="frt-certs-")), collected.kept
        )
    except (FrtError, OSError) as also:
        faults.append(StorageFault(f"nor can a temporary directory be written: {also}"))
        return Sealed({}, "", {})
