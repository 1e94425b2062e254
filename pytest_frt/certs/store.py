"""Where certificates lie: ``<root>/<host>/<device>/<name>.<digest12>.frt.intoto.jsonl``, artefacts by digest beside.

Location gives no trust and file names are for people: what a file says counts after verification only. Unsigned
statements end in ``.statement.json`` and hold exactly the payload bytes, so their sha256 is the certificate's name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from pytest_frt.cell import RecordKey
from pytest_frt.certs.dsse import MAX_SET_BYTES, join_set, parse_envelope, split_set
from pytest_frt.certs.files import read_some, storage, write_atomic
from pytest_frt.certs.lock import locked
from pytest_frt.certs.statement import CellCertificate, Certificate, parse_payload
from pytest_frt.certs.strict_json import STATEMENT
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused, UsageFault

CERTIFICATE_SUFFIX: Final = ".frt.intoto.jsonl"
INDEX_NAME: Final = "index.intoto.jsonl"
STATEMENT_SUFFIX: Final = ".statement.json"
ARTEFACT_SUFFIX: Final = ".safetensors"
SHORT: Final = 12
MAX_ARTEFACT_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SetFile:
    """A certificate set as read: its lines are not verified."""

    path: Path
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class BadSet:
    """A file that is no certificate set."""

    path: Path
    code: str
    message: str


Found: TypeAlias = SetFile | BadSet


def folder(root: Path, host: str, device: str) -> Path:
    """Return the directory of one host on one device."""
    return root / host / device


def place(root: Path, certificate: Certificate, suffix: str) -> Path:
    """Return where a certificate or statement belongs."""
    if isinstance(certificate, CellCertificate):
        cell = certificate.record.key.cell
    else:
        cell = RecordKey.parse(certificate.plan.keys[0]).cell
    return folder(root, cell.host, cell.device) / _file_name(certificate, suffix)


def beside(path: Path, certificate: Certificate) -> Path:
    """Return the certificate file that belongs beside a statement file."""
    return path.with_name(_file_name(certificate, CERTIFICATE_SUFFIX))


def _file_name(certificate: Certificate, suffix: str) -> str:
    return f"{certificate.title}.{certificate.payload_sha256[:SHORT]}{suffix}"


def write_statement(root: str | Path, payload: bytes) -> Path:
    """Write an unsigned statement and return its path.

    Raises:
        CertificateRefused: ``payload`` is no statement.
        StorageFault: the directory cannot be written.
    """
    path = place(Path(root), parse_payload(payload), STATEMENT_SUFFIX)
    write_atomic(path, payload)
    return path


def write_certificate(root: str | Path, line: str) -> Path:
    """Write one signed line and return its path; a line of another signer in the same file is kept.

    Raises:
        CertificateRefused: ``line`` is no envelope around a statement.
        StorageFault: the directory cannot be written.
    """
    certificate = parse_payload(parse_envelope(line.encode()).payload)
    path = place(Path(root), certificate, CERTIFICATE_SUFFIX)
    add_line(path, line)
    return path


def add_line(path: Path, line: str) -> None:
    """Add a line to a certificate set unless it is there already.

    Raises:
        CertificateRefused: ``FILE_BUSY``, ``SET_FILE``: another process holds the lock; the file is as it was.
        StorageFault: the file is as it was before.
    """
    with storage(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with held(path):
        put_line(path, line)


def held(path: Path) -> AbstractContextManager[None]:
    """Hold the lock of a set, from reading it to writing it anew; its folder is there.

    Raises:
        CertificateRefused: ``FILE_BUSY``, or ``SET_FILE`` for a lock that is no regular file.
        StorageFault: no lock can be made here.
    """
    return locked(path, special="SET_FILE")


def put_line(path: Path, line: str) -> None:
    """Do what ``add_line`` does for a caller who holds the lock of the set.

    Raises:
        CertificateRefused: ``SET_SIZE``: the set would be more than a reader takes.
        StorageFault: it cannot be written. In either case the file is as it was before.
    """
    before = split_set(read_some(path, MAX_SET_BYTES + 1)) if path.exists() else ()
    if line.encode() not in before:
        write_atomic(path, join_set((*before, line.encode())))


def read_statement(path: Path) -> bytes:
    """Return the payload bytes of a statement file.

    Raises:
        UsageFault: missing or unreadable.
        CertificateRefused: ``JSON_SIZE``.
    """
    data = read_some(path, STATEMENT.size + 1)
    if len(data) > STATEMENT.size:
        raise CertificateRefused("JSON_SIZE", f"{path} is larger than the cap of {STATEMENT.size} bytes")
    return data


def read(paths: str | Path | Iterable[str | Path]) -> tuple[Found, ...]:
    """Return the certificate sets of files and, recursively, directories with their indexes, in a stable order.

    Raises:
        UsageFault: a path that was named is missing or unreadable.
    """
    return tuple(found for path in _listed(paths) for found in _read_path(path))


def changed_since(root: str | Path, moment: float) -> tuple[Path, ...]:
    """Return the statements and certificate sets at or below a directory that were made or changed after a moment.

    A program can set the time of a file's last modification, and cannot set that of its last change.

    Args:
        root: The directory; one that does not exist holds none.
        moment: Seconds since the epoch.
    """
    files = (file for ending in (STATEMENT_SUFFIX, CERTIFICATE_SUFFIX) for file in _files(Path(root), ending))
    return tuple(file for file in files if file.lstat().st_ctime >= moment)


def write_artefact(root: str | Path, host: str, device: str, data: bytes) -> Path:
    """Write a calibration artefact under its sha256 and return its path.

    Raises:
        StorageFault: the directory cannot be written.
    """
    path = folder(Path(root), host, device) / f"{hashlib.sha256(data).hexdigest()}{ARTEFACT_SUFFIX}"
    write_atomic(path, data)
    return path


def read_artefact(paths: str | Path | Iterable[str | Path], artefact: FileDigest) -> bytes:
    """Return the bytes of an artefact, found by name at or below ``paths`` and by digest: others hide no good one.

    Raises:
        CertificateRefused: ``ARTEFACT``: it is not there, or nowhere with its bytes.
    """
    name, wrong = f"{artefact.sha256}{ARTEFACT_SUFFIX}", ""
    for path in _listed(paths):
        top = path if path.is_dir() else path.parent
        for file in (one for one in _files(top, name) if one.name == name):
            try:
                data = read_some(file, MAX_ARTEFACT_BYTES)
            except UsageFault as fault:
                wrong = wrong or fault.message
                continue
            digest = hashlib.sha256(data).hexdigest()
            if digest == artefact.sha256:
                return data
            wrong = wrong or f"{file} has sha256 {digest}, certified is {artefact.sha256}"
    if wrong:
        raise CertificateRefused("ARTEFACT", wrong, hint="fetch the artefact again")
    raise CertificateRefused(
        "ARTEFACT", f"{artefact.name} is nowhere as {name}", hint="keep artefacts beside their certificates"
    )


def _listed(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]


def _read_path(path: Path) -> Iterator[Found]:
    if not path.is_dir():
        yield _read_set(path)
        return
    shut: list[OSError] = []
    indexes = (file for file in _files(path, INDEX_NAME) if file.name == INDEX_NAME)
    for file in (*_files(path, CERTIFICATE_SUFFIX, shut.append), *indexes):
        try:
            yield _read_set(file)
        except UsageFault as fault:  # one bad file must not hide the others of a directory
            yield BadSet(file, "SET_FILE", fault.message)
    for error in shut:
        where = Path(error.filename or path)
        yield BadSet(where, "SET_FILE", f"{where} cannot be read: {error.strerror}")


def _read_set(path: Path) -> Found:
    try:
        return SetFile(path, split_set(read_some(path, MAX_SET_BYTES + 1)))
    except CertificateRefused as refusal:
        return BadSet(path, refusal.refusal_code, refusal.message)


def _files(top: Path, ending: str, shut: Callable[[OSError], object] | None = None) -> Iterator[Path]:
    """Yield files below ``top`` whose name ends so, sorted; links are not followed, ``shut`` hears of shut folders."""
    for current, folders, names in os.walk(top, onerror=shut, followlinks=False):
        folders.sort()
        yield from (Path(current, name) for name in sorted(names) if name.endswith(ending))
