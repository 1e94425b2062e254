"""One checkable package of a run: certificates, artefacts, evidence, logs and surroundings, with a manifest of digests.

A bundle is a folder, or a zip file that is byte for byte what ``pack`` writes: stored entries, sorted, without times or
comments. A reader therefore packs again what it has read and compares: data before, between or behind the entries, two
entries of one name and other tricks of the format do not survive that. Nothing is written to disk before.

``manifest.json`` is ``{"schema": "frt-bundle/1", "files": {name: {"sha256": ..., "size": ...}}}`` over all others.
It is no signature: what counts of a bundle are the certificates in it, which are verified as anywhere else.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_frt.certs import store
from pytest_frt.certs.dsse import split_set
from pytest_frt.certs.files import check_new, read_some, storage, write_atomic, write_new
from pytest_frt.certs.outcomes import Line
from pytest_frt.certs.reading import Node, check_file_name
from pytest_frt.certs.statement import CellCertificate, Certificate
from pytest_frt.certs.strict_json import Caps, Json, parse, serialise
from pytest_frt.errors import CertificateRefused

SCHEMA: Final = "frt-bundle/1"
MANIFEST: Final = "manifest.json"
ZIP_SUFFIX: Final = ".zip"
MAX_FILES: Final = 4_096
MAX_FILE_BYTES: Final = 128 * 1024 * 1024
MAX_BYTES: Final = 512 * 1024 * 1024
_MANIFEST_CAPS: Final = Caps(size=2 * 1024 * 1024, separators=8 * MAX_FILES)
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip entry can have
_MODE: Final = (stat.S_IFREG | 0o644) << 16
_UNIX: Final = 3
_ENCRYPTED: Final = 1

Files = Mapping[str, bytes]


def with_manifest(files: Files) -> dict[str, bytes]:
    """Return the files of a bundle, manifest first.

    Raises:
        CertificateRefused: ``NAME`` or ``BUNDLE_SIZE``: a bundle of these would be refused.
    """
    for name in files:
        check_file_name(name)
    _check_caps({name: len(data) for name, data in files.items()})
    listed: dict[str, Json] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in sorted(files.items())
    }
    manifest = serialise({"schema": SCHEMA, "files": listed}, _MANIFEST_CAPS)
    return _ordered({**files, MANIFEST: manifest})


def _ordered(files: Files) -> dict[str, bytes]:
    """Return files with the manifest first and the others by name."""
    return dict(sorted(files.items(), key=lambda item: (item[0] != MANIFEST, item[0])))


def pack(files: Files) -> bytes:
    """Return the zip file of files; equal files give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in _ordered(files).items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            archive.writestr(entry, data)
    return buffer.getvalue()


def write(out: Path, files: Files) -> None:
    """Write a bundle: a zip file when ``out`` ends so, else a new folder.

    Raises:
        UsageFault: the file or folder exists.
        StorageFault: it cannot be written; nothing is left.
    """
    if out.suffix == ZIP_SUFFIX:
        with storage(out):
            out.parent.mkdir(parents=True, exist_ok=True)
        write_new(out, pack(files), mode=0o644)
        return
    write_folder(out, files)


def write_folder(out: Path, files: Files) -> None:
    """Write files below a folder that must not exist; it appears whole or not at all.

    Raises:
        UsageFault: the folder exists.
        StorageFault: it cannot be written; nothing is left.
    """
    check_new(out)
    part = out.with_name(f".{out.name}.{secrets.token_hex(8)}.part")
    try:
        for name, data in files.items():
            write_atomic(part / name, data)
        with storage(out):
            part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read(path: Path) -> dict[str, bytes]:
    """Return the files of a bundle whose form and manifest hold.

    Raises:
        UsageFault: the path is missing or unreadable.
        CertificateRefused: ``BUNDLE_FORM``, ``BUNDLE_SIZE``, ``BUNDLE_DUP``, ``NAME``, ``TREE_SYMLINK``,
            ``TREE_SPECIAL``, ``BUNDLE_MANIFEST`` or ``BUNDLE_FILE``.
    """
    files = _read_folder(path) if path.is_dir() else _read_zip(path)
    _check_manifest(files)
    return files


def lines(files: Files, source: str) -> list[Line]:
    """Return the lines of every certificate set and index of a bundle, for ``verify_lines``.

    Raises:
        CertificateRefused: ``SET_SIZE``.
    """
    found = []
    for name, data in sorted(files.items()):
        if name.endswith((store.CERTIFICATE_SUFFIX, f"/{store.INDEX_NAME}")) or name == store.INDEX_NAME:
            found += [Line(f"{source}/{name}:{at}", line) for at, line in enumerate(split_set(data), start=1)]
    return found


def digests(files: Files) -> frozenset[str]:
    """Return the sha256 of every file."""
    return frozenset(hashlib.sha256(data).hexdigest() for data in files.values())


def missing(certificate: Certificate, have: Collection[str]) -> tuple[str, ...]:
    """Return the artefact and evidence files that a certificate names and whose digest no file of a bundle has."""
    if not isinstance(certificate, CellCertificate):
        return ()
    record = certificate.record
    named = [*record.evidence, *([record.calibration.artefact] if record.calibration else [])]
    return tuple(f"{one.name} ({one.sha256})" for one in named if one.sha256 not in have)


def _check_caps(sizes: Mapping[str, int]) -> None:
    if len(sizes) > MAX_FILES:
        raise CertificateRefused("BUNDLE_SIZE", f"{len(sizes)} files, a bundle has at most {MAX_FILES}")
    for name, size in sizes.items():
        if size > MAX_FILE_BYTES:
            raise CertificateRefused("BUNDLE_SIZE", f"{name} has {size} bytes, over {MAX_FILE_BYTES}")
    if (total := sum(sizes.values())) > MAX_BYTES:
        raise CertificateRefused("BUNDLE_SIZE", f"{total} bytes in all, over {MAX_BYTES}")


def _read_zip(path: Path) -> dict[str, bytes]:
    data = read_some(path, MAX_BYTES + _MANIFEST_CAPS.size + 1)
    if len(data) > MAX_BYTES + _MANIFEST_CAPS.size:
        raise CertificateRefused("BUNDLE_SIZE", f"{path} has more than {MAX_BYTES} bytes")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_entries(entries)
            files = {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OSError) as fault:
        # What the parser of the standard library raises over bytes that are no zip file, or not one it can read.
        raise CertificateRefused("BUNDLE_FORM", f"{path} cannot be read as a zip file") from fault
    if pack(files) != data:
        raise CertificateRefused("BUNDLE_FORM", f"{path} is a zip file, and not as a bundle is written")
    return files


def _check_entries(entries: list[zipfile.ZipInfo]) -> None:
    _check_caps({str(at): entry.file_size for at, entry in enumerate(entries)})
    names: set[str] = set()
    for entry in entries:
        name = check_file_name(entry.filename)
        if name in names:
            raise CertificateRefused("BUNDLE_DUP", f"{name} is in the bundle twice")
        names.add(name)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind == stat.S_IFLNK:
            raise CertificateRefused("TREE_SYMLINK", f"{name} is a symbolic link")
        if kind not in (0, stat.S_IFREG):
            raise CertificateRefused("TREE_SPECIAL", f"{name} is no regular file")
        stored = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
        if not stored or entry.flag_bits & _ENCRYPTED:
            raise CertificateRefused("BUNDLE_FORM", f"{name} is compressed or encrypted; a bundle stores its files")


def _read_folder(path: Path) -> dict[str, bytes]:
    found = dict(walk(path))
    _check_caps({name: size for name, (_, size) in found.items()})
    return {name: read_some(file, size + 1) for name, (file, size) in found.items()}


def walk(path: Path, left_out: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[Path, int]]]:
    """Yield name, place and size in bytes of every file below a folder, but for those whose name ends as ``left_out``.

    Raises:
        CertificateRefused: ``TREE_SYMLINK``, ``TREE_SPECIAL``, ``NAME``, or ``SET_FILE``: a folder cannot be read.
    """
    for current, folders, names in os.walk(path, onerror=_refuse_shut, followlinks=False):
        folders.sort()
        for name in sorted((*folders, *names)):
            file = Path(current, name)
            relative, facts = file.relative_to(path).as_posix(), file.lstat()
            if stat.S_ISLNK(facts.st_mode):
                raise CertificateRefused("TREE_SYMLINK", f"{file} is a symbolic link", hint="put the file in its place")
            if stat.S_ISDIR(facts.st_mode):
                continue
            if not stat.S_ISREG(facts.st_mode):
                raise CertificateRefused("TREE_SPECIAL", f"{file} is no regular file")
            if name.endswith(left_out):
                continue
            yield check_file_name(relative), (file, facts.st_size)


def _refuse_shut(error: OSError) -> None:
    raise CertificateRefused("SET_FILE", f"{error.filename} cannot be read: {error.strerror}") from error


def _check_manifest(files: Files) -> None:
    if MANIFEST not in files:
        raise CertificateRefused("BUNDLE_MANIFEST", f"the bundle has no {MANIFEST}")
    root = Node(parse(files[MANIFEST], _MANIFEST_CAPS), MANIFEST, code="BUNDLE_MANIFEST").only(("schema", "files"))
    root.get("schema").word((SCHEMA,))
    listed = {name: node.only(("sha256", "size")) for name, node in root.get("files").pairs()}
    for name in sorted((listed.keys() | files.keys()) - {MANIFEST}):
        if name not in listed:
            raise CertificateRefused("BUNDLE_FILE", f"{name} is in the bundle and not in its manifest")
        if name not in files:
            raise CertificateRefused("BUNDLE_FILE", f"{name} is in the manifest and not in the bundle")
        digest, size = hashlib.sha256(files[name]).hexdigest(), len(files[name])
        stated = listed[name].get("sha256").sha256(), listed[name].get("size").integer(0, MAX_FILE_BYTES)
        if (digest, size) != stated:
            raise CertificateRefused(
                "BUNDLE_FILE",
                f"{name} has {size} bytes with sha256 {digest}, the manifest says {stated[1]}, {stated[0]}",
            )
    if MANIFEST in listed:
        raise CertificateRefused("BUNDLE_MANIFEST", "the manifest lists itself")
