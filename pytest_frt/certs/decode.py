"""Predicate to record: the exact inverse of ``encode``. Called on bytes whose signature was verified, never before.

Every function below takes one plain value (``shape`` says what a reader is) and gives back its typed form.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from pytest_frt.cell import Cell, RecordKey, check_name
from pytest_frt.certs.decode_bulk import GATES, seats
from pytest_frt.certs.reading import Node, check_file_name
from pytest_frt.certs.shape import (
    Misfit,
    Reader,
    array,
    digest_set,
    identifier,
    integer,
    member,
    members,
    record,
    revision,
    sha256,
    text,
    text_map,
    texts,
    word,
)
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.record import (
    CalibrationFacts,
    FileDigest,
    KernelFacts,
    PlanRecord,
    Record,
)
from pytest_frt.errors import CertificateRefused, SpecError

_VERSIONED: Final = re.compile(r"([a-z][a-z0-9_]*)@([1-9][0-9]{0,5})")


def record_of(predicate: Node, subjects: tuple[FileDigest, ...]) -> Record:
    """Return the record of a cell predicate.

    Raises:
        CertificateRefused: ``SCHEMA``, ``NAME``, ``DECIMAL`` or ``DIGEST``, with the place.
    """
    return predicate.read(lambda value: _record(members(value), subjects))


def plan_of(predicate: Node, subjects: tuple[FileDigest, ...]) -> PlanRecord:
    """Return the plan of a plan predicate; ``subjects`` are its members, named ``cell/<record key>``.

    Raises:
        CertificateRefused: as ``record_of``; also members that are unsorted, repeated or no record keys.
    """
    return predicate.read(lambda value: _plan(members(value), subjects))


def _record(of: dict[str, object], subjects: tuple[FileDigest, ...]) -> Record:
    structure_version, impl_version, cell = member(of, "cell", _CELL)
    key = member(of, "deployment", record(partial(RecordKey, cell), *_DEPLOYMENT))
    host = member(of, "host", _HOST)
    if host.name != cell.host:
        raise Misfit(f"is not the host {cell.host} of the cell").inside("host.name")
    return Record(
        key=key,
        structure_version=structure_version,
        impl_version=impl_version,
        subjects=subjects,
        kernel=member(of, "kernel", _KERNEL),
        host=host,
        device=member(of, "device", _DEVICE),
        software=member(of, "software", text_map),
        seats=member(of, "seats", lambda value: seats(value, cell.structure)),
        refused=member(of, "refused", _REFUSED),
        rows=member(of, "rows", _rows),
        dtype=member(of, "dtype", identifier),
        calibration=member(of, "calibration", _calibration),
        gates=member(of, "gates", GATES),
        attempts=member(of, "attempts", _COUNT),
        seed=member(of, "seed", _INTEGER),
        evidence=member(of, "evidence", NAMED_DIGESTS),
        checker=member(of, "checker", _CHECKER),
    )


def _plan(of: dict[str, object], subjects: tuple[FileDigest, ...]) -> PlanRecord:
    host = member(of, "host", _HOST)
    keys = tuple(subject.name.removeprefix("cell/") for subject in subjects)
    payloads = tuple(subject.sha256 for subject in subjects)
    if list(payloads) != sorted(set(payloads)):
        raise CertificateRefused("SCHEMA", "subject is not sorted by distinct payload digests")
    for key, subject in zip(keys, subjects, strict=True):
        if not subject.name.startswith("cell/") or _key(key).cell.host != host.name:
            raise CertificateRefused("SCHEMA", f"subject {subject.name!r} is not cell/<record key> of {host.name}")
    return PlanRecord(
        name=member(of, "name", _file_name),
        members=payloads,
        keys=keys,
        dropped=member(of, "dropped", _DROPPED),
        gates=member(of, "gates", GATES),
        host=host,
        device=member(of, "device", _DEVICE),
        software=member(of, "software", text_map),
        attempts=member(of, "attempts", _COUNT),
        seed=member(of, "seed", _INTEGER),
        checker=member(of, "checker", _CHECKER),
    )


def _file_name(value: object) -> str:
    return check_file_name(text(value))


NAMED_DIGEST: Final = record(FileDigest, ("name", _file_name), ("digest", digest_set))
"""Reader of a resource descriptor: a plain relative name and its sha256."""
NAMED_DIGESTS: Final = array(NAMED_DIGEST)


_CHECKER: Final = record(FileDigest, ("name", text), ("digest", digest_set))


def _name(value: object) -> str:
    try:
        return check_name("", text(value))
    except SpecError as error:  # its message starts with what was given as the kind of name
        raise Misfit(error.message.lstrip(), "NAME") from None


def _key(key: str) -> RecordKey:
    try:
        return RecordKey.parse(key)
    except SpecError as error:
        raise CertificateRefused("NAME", error.message) from None


def _versioned(value: object) -> tuple[str, int]:
    found = _VERSIONED.fullmatch(text(value))
    if not found:
        raise Misfit("is not <name>@<version>", "NAME")
    return found[1], int(found[2])


def _cell(structure: tuple[str, int], impl: tuple[str, int], *others: str) -> tuple[int, int, Cell]:
    """Return the versions of structure and impl, and the cell."""
    return structure[1], impl[1], Cell(structure[0], impl[0], *others)


def _revision(value: object) -> str:
    return "" if value == "" else revision(value)  # empty says the same as ``local``


def _rows(value: object) -> tuple[int, int]:
    band = array(_INTEGER)(value)
    if len(band) != 2 or band[0] > band[1]:  # noqa: PLR2004
        raise Misfit("is not a band [lowest, highest]")
    return band[0], band[1]


def _calibration(value: object) -> CalibrationFacts | None:
    return None if value is None else _CALIBRATION(value)


def _table(key: str, read_name: str, read: Reader[str]) -> Reader[dict[str, str]]:
    """Return the reader of an array of objects as the map it stands for; a repeated key is refused."""
    pairs = array(record(lambda *pair: pair, (key, text), (read_name, read)))

    def read_table(value: object) -> dict[str, str]:
        entries = pairs(value)
        table = dict(entries)
        if len(table) != len(entries):
            raise Misfit(f"is not an array with each {key} once")
        return table

    return read_table


_INTEGER: Final = integer()
_COUNT: Final = integer(1)
_HOST_WEIGHTS: Final = word("random", "trained")
_MODULE_SOURCE: Final = _table("class", "digest", digest_set)
_REFUSED: Final = _table("seat", "reason", text)
_DROPPED: Final = _table("key", "reason", text)
_CELL: Final = record(
    _cell, ("structure", _versioned), ("impl", _versioned), ("host", _name), ("scheme", _name), ("device", _name)
)
# The members of each class, in its order.
_DEPLOYMENT: Final = (("form", _name), ("phase", _name), ("size", _name), ("cache", _name))
_KERNEL: Final = record(
    KernelFacts, ("repo", identifier), ("revision", _revision), ("variant", identifier), ("treeDigest", sha256)
)
_HOST: Final = record(
    HostFacts,
    ("name", _name),
    ("class", text),
    ("library", text_map),
    ("configDigest", sha256),
    ("moduleSourceDigest", _MODULE_SOURCE),
    ("weights", _HOST_WEIGHTS),
    ("checkpoint", text),
)
_DEVICE: Final = record(
    DeviceFacts,
    ("kind", identifier),
    ("arch", identifier),
    ("name", text),
    ("isa", texts),
    ("threads", _INTEGER),
    ("math", text),
)
_CALIBRATION: Final = record(
    CalibrationFacts,
    ("artefact", NAMED_DIGEST),
    ("method", text),
    ("samples", _COUNT),
    ("dataDigest", sha256),
    ("heldoutDigest", sha256),
)
