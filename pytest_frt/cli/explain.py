"""``frt explain``: what a cell is and whether it can run here, and what certificates and statements say."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, store
from pytest_frt.certs.reading import time_text
from pytest_frt.certs.statement import CellCertificate, Certificate, parse_payload
from pytest_frt.cli.certs import DEFAULT_OUT
from pytest_frt.contracts.record import GateRow, PlanRecord, Record
from pytest_frt.devices.probe import machine_facts
from pytest_frt.errors import CertificateRefused, FrtError, SpecError, UsageFault
from pytest_frt.expand import NotSupported, expand
from pytest_frt.registry import Registry
from pytest_frt.run.config import Selection
from pytest_frt.run.emulation import label

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

UNVERIFIED = "signatures and files are not checked here; frt verify checks signatures, attach checks files"


EXPLAINED: Final = (
    "give a file or directory of certificates or statements, a cell id (structure-impl-host-scheme-device) "
    "or a record key; frt list shows what is installed"
)
FILES: Final = frozenset({".json", ".jsonl"})
"""How the names of certificates and statements end; no cell id ends so."""


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt explain``."""
    command = subparsers.add_parser("explain", help="say what a cell is, or what a certificate or statement states")
    command.add_argument(
        "what", metavar="WHAT", help="cell id, record key, certificate or statement file, or directory"
    )
    command.add_argument("--certs", metavar="DIR", default=DEFAULT_OUT, help="where certificates lie (%(default)s)")
    command.set_defaults(func=show)


def show(args: argparse.Namespace) -> int:
    """Print the explanation.

    Raises:
        UsageFault: neither a file nor a cell of what is installed.
        CertificateRefused: a file that is no certificate.
    """
    path = Path(args.what)
    if not path.exists() and (os.sep in args.what or path.suffix in FILES):
        raise UsageFault(f"{path} is missing: there is no such file or directory", hint=EXPLAINED)
    lines = _files(path) if path.exists() else _cell(args.what, Path(args.certs))
    for line in lines:
        print(line)
    return 0


def _files(path: Path) -> Iterator[str]:
    found = list(_read(path))
    if not found:
        raise UsageFault(f"{path} holds no certificate and no statement", hint="frt list shows what can be certified")
    for source, certificate, signers in found:
        yield f"{source}"
        yield from (f"  {line}" for line in describe(certificate, signers))
        yield ""
    yield UNVERIFIED


def _read(path: Path) -> Iterator[tuple[Path, Certificate, tuple[str, ...]]]:
    """Yield the statements of a file or directory, with the key ids that claim to have signed each."""
    statements = sorted(path.rglob(f"*{store.STATEMENT_SUFFIX}")) if path.is_dir() else [path]
    for file in statements:
        if file.name.endswith(store.STATEMENT_SUFFIX):
            yield file, parse_payload(store.read_statement(file)), ()
    if not path.is_dir() and path.name.endswith(store.STATEMENT_SUFFIX):
        return
    for found in store.read(path):
        if isinstance(found, store.BadSet):
            raise CertificateRefused(found.code, f"{found.path}: {found.message}")
        for line in found.lines:
            envelope = dsse.parse_envelope(line)
            keys = tuple(signature.keyid or "a key without an id" for signature in envelope.signatures)
            yield found.path, parse_payload(envelope.payload), keys


def describe(certificate: Certificate, signers: tuple[str, ...]) -> Iterator[str]:
    """Yield what a certificate states, line by line."""
    yield f"{certificate.title}  {certificate.payload_sha256[: store.SHORT]}"
    yield f"issuer {certificate.issuer}, from {time_text(certificate.issued_at)} to {time_text(certificate.expires_at)}"
    yield f"claims to be signed by {', '.join(signers)}" if signers else "unsigned: activates nothing"
    if isinstance(certificate, CellCertificate):
        yield from _record(certificate.record)
    else:
        yield from _plan(certificate.plan)


def _record(record: Record) -> Iterator[str]:
    host, device, kernel = record.host, record.device, record.kernel
    yield f"host {host.name}: {host.host_class}, {host.weights} weights, {host.checkpoint}"
    yield f"device {device.name}, {device.arch}, {device.threads} threads, {device.math}"
    yield f"kernel {kernel.repo} {kernel.variant}, tree {kernel.tree_digest[: store.SHORT]}"
    yield f"rows {record.rows[0]} to {record.rows[1]}, {record.dtype}, seed {record.seed}, attempt {record.attempts}"
    yield f"{len(record.seats)} seats:"
    yield from (f"  {seat.facts.id}" for seat in record.seats)
    yield f"{len(record.refused)} seats refused:"
    yield from (f"  {seat}: {why}" for seat, why in record.refused.items())
    yield from _gates(record.gates)


def _plan(plan: PlanRecord) -> Iterator[str]:
    yield f"{len(plan.keys)} records, attached together:"
    yield from (f"  {key}  {name[: store.SHORT]}" for key, name in zip(plan.keys, plan.members, strict=True))
    yield from (f"left out {key}: {why}" for key, why in plan.dropped.items())
    yield from _gates(plan.gates)


def _gates(gates: tuple[GateRow, ...]) -> Iterator[str]:
    yield "gates, recomputed by whoever verifies:"
    for row in gates:
        band = f", band {row.band}" if row.band != "pass" else ""
        yield f"  {row.name} {row.measured} {row.op} {row.floor} ({row.statistic} of {row.n}{band})"


def _cell(text: str, certs: Path) -> Iterator[str]:
    """Say what a cell or record is made of, whether it runs here, and which files under ``certs`` speak of it."""
    try:
        cell = RecordKey.parse(text).cell if "@" in text else Cell.parse(text)
    except SpecError as fault:
        raise UsageFault(f"there is no file or directory {text}, and {fault.message}", hint=EXPLAINED) from fault
    registry = Registry.load()
    structure, host = registry.structure(cell.structure).spec, registry.host(cell.host).spec
    impl = registry.impl(cell.structure, cell.impl).impl
    yield cell.id
    yield f"  structure {cell.structure}: {structure.summary}"
    yield f"  impl {cell.impl}: version {impl.version}, kernel {impl.kernel}, schemes {', '.join(impl.schemes)}"
    yield f"  host {cell.host}: {host.summary}"
    yield f"  {_runs_here(cell, registry)}"
    spoken = [found for found in (_read(certs) if certs.is_dir() else ()) if _speaks_of(found[1], text)]
    yield f"  {len(spoken)} certificates and statements under {certs}"
    for source, certificate, signers in spoken:
        yield f"    {source} ({'signed' if signers else 'unsigned'}, until {time_text(certificate.expires_at)})"


def _runs_here(cell: Cell, registry: Registry) -> str:
    names = {"structure": cell.structure, "impl": cell.impl, "host": cell.host, "scheme": cell.scheme}
    only = Selection({**{key: (name,) for key, name in names.items()}, "device": (cell.device,)})
    try:
        rows = expand(only, registry, machine_facts())
    except FrtError as fault:
        return f"does not run here: {fault.message}"
    (row,) = rows
    if isinstance(row, NotSupported):
        return f"does not run here: {row.reason}"
    return label(cell.device) if row.emulated else "runs here"


def _speaks_of(certificate: Certificate, text: str) -> bool:
    if isinstance(certificate, CellCertificate):
        return text in {certificate.title, certificate.record.key.cell.id}
    return any(text in {key, RecordKey.parse(key).cell.id} for key in certificate.plan.keys)
