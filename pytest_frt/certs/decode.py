"""Predicate to record: the exact inverse of ``encode``. Called on bytes whose signature was verified, never before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pytest_frt.cell import Cell, RecordKey, check_name
from pytest_frt.certs.reading import Node
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.record import (
    CalibrationFacts,
    FileDigest,
    GateRow,
    KernelFacts,
    PlanRecord,
    Record,
    SeatRecord,
)
from pytest_frt.contracts.seat import ModuleSeat, PairSeat, PointAt, RoutedSeat, Seat, SeatFacts, SlotRef
from pytest_frt.errors import CertificateRefused, SpecError

OPS: Final = (">=", "<=")
STATISTICS: Final = ("frt_nw_1", "max", "median", "min")
BANDS: Final = ("pass", "warn")
LOCAL_REVISIONS: Final = ("", "local")  # a build that came from no Hub commit
# A branch name moves; only a commit is a claim worth stating.
_REVISION: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SAMPLE: Final = re.compile(r"(?:[0-9]{1,3}:)?-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,12})?")
_VERSIONED: Final = re.compile(r"([a-z][a-z0-9_]*)@([1-9][0-9]{0,5})")


def record_of(predicate: Node, subjects: tuple[FileDigest, ...]) -> Record:
    """Return the record of a cell predicate.

    Raises:
        CertificateRefused: ``SCHEMA``, ``NAME``, ``DECIMAL`` or ``DIGEST``, with the place.
    """
    cell = predicate.get("cell")
    structure, structure_version = _versioned(cell.get("structure"))
    impl, impl_version = _versioned(cell.get("impl"))
    deployment = predicate.get("deployment")
    key = RecordKey(
        Cell(structure, impl, _name(cell.get("host")), _name(cell.get("scheme")), _name(cell.get("device"))),
        *(_name(deployment.get(part)) for part in ("form", "phase", "size", "cache")),
    )
    host = _host(predicate.get("host"))
    if host.name != key.cell.host:
        raise predicate.get("host").get("name").wrong(f"the host {key.cell.host} of the cell")
    return Record(
        key=key,
        structure_version=structure_version,
        impl_version=impl_version,
        subjects=subjects,
        kernel=_kernel(predicate.get("kernel")),
        host=host,
        device=_device(predicate.get("device")),
        software=predicate.get("software").text_map(),
        seats=_seats(predicate.get("seats"), structure),
        refused=_reasons(predicate.get("refused"), "seat"),
        rows=_rows(predicate.get("rows")),
        dtype=predicate.get("dtype").identifier(),
        calibration=_calibration(predicate.get("calibration")),
        gates=_gates(predicate.get("gates")),
        attempts=predicate.get("attempts").integer(1),
        seed=predicate.get("seed").integer(),
        evidence=tuple(named_digest(item) for item in predicate.get("evidence").items()),
        checker=_checker(predicate.get("checker")),
    )


def plan_of(predicate: Node, subjects: tuple[FileDigest, ...]) -> PlanRecord:
    """Return the plan of a plan predicate; ``subjects`` are its members, named ``cell/<record key>``.

    Raises:
        CertificateRefused: as ``record_of``; also members that are unsorted, repeated or no record keys.
    """
    host = _host(predicate.get("host"))
    keys = tuple(subject.name.removeprefix("cell/") for subject in subjects)
    members = tuple(subject.sha256 for subject in subjects)
    if list(members) != sorted(set(members)):
        raise CertificateRefused("SCHEMA", "subject is not sorted by distinct payload digests")
    for key, subject in zip(keys, subjects, strict=True):
        if not subject.name.startswith("cell/") or _key(key).cell.host != host.name:
            raise CertificateRefused("SCHEMA", f"subject {subject.name!r} is not cell/<record key> of {host.name}")
    return PlanRecord(
        name=predicate.get("name").file_name(),
        members=members,
        keys=keys,
        dropped=_reasons(predicate.get("dropped"), "key"),
        gates=_gates(predicate.get("gates")),
        host=host,
        device=_device(predicate.get("device")),
        software=predicate.get("software").text_map(),
        attempts=predicate.get("attempts").integer(1),
        seed=predicate.get("seed").integer(),
        checker=_checker(predicate.get("checker")),
    )


def named_digest(node: Node) -> FileDigest:
    """Return a resource descriptor: a plain relative name and its sha256."""
    return FileDigest(node.get("name").file_name(), node.get("digest").digest_set())


def _checker(node: Node) -> FileDigest:
    return FileDigest(node.get("name").text(), node.get("digest").digest_set())


def _name(node: Node) -> str:
    try:
        return check_name(node.where, node.text())
    except SpecError as error:
        raise CertificateRefused("NAME", error.message) from None


def _key(text: str) -> RecordKey:
    try:
        return RecordKey.parse(text)
    except SpecError as error:
        raise CertificateRefused("NAME", error.message) from None


def _versioned(node: Node) -> tuple[str, int]:
    found = _VERSIONED.fullmatch(node.text())
    if not found:
        raise CertificateRefused("NAME", f"{node.where} is not <name>@<version>")
    return found[1], int(found[2])


def _kernel(node: Node) -> KernelFacts:
    revision = node.get("revision")
    text = revision.text()
    if text not in LOCAL_REVISIONS and not _REVISION.fullmatch(text):
        raise revision.wrong("a commit of 40 or 64 hex digits, nor empty or 'local' for a local build")
    return KernelFacts(
        node.get("repo").identifier(), text, node.get("variant").identifier(), node.get("treeDigest").sha256()
    )


def _host(node: Node) -> HostFacts:
    return HostFacts(
        name=_name(node.get("name")),
        host_class=node.get("class").text(),
        library=node.get("library").text_map(),
        config_digest=node.get("configDigest").sha256(),
        module_source=_table(node.get("moduleSourceDigest"), "class", lambda item: item.get("digest").digest_set()),
        weights=node.get("weights").word(("random", "trained")),
        checkpoint=node.get("checkpoint").text(),
    )


def _device(node: Node) -> DeviceFacts:
    return DeviceFacts(
        kind=node.get("kind").identifier(),
        arch=node.get("arch").identifier(),
        name=node.get("name").text(),
        isa=node.get("isa").texts(),
        threads=node.get("threads").integer(),
        math=node.get("math").text(),
    )


def _seats(node: Node, structure: str) -> tuple[SeatRecord, ...]:
    seats = tuple(_seat(item, structure) for item in node.items())
    places = [place for seat in seats for place in seat.facts.seat.places]
    if not seats or len(set(places)) != len(places):
        raise node.wrong("a non-empty array of seats at different places")
    return seats


def _seat(node: Node, structure: str) -> SeatRecord:
    facts = SeatFacts(
        structure=structure,
        seat=_place(node.get("at")),
        variant=node.get("variant").text_map(),
        dims={name: item.integer() for name, item in node.get("dims").pairs()},
        slots={
            name: SlotRef(item.get("tensor").text(), item.get("transpose").flag())
            for name, item in node.get("slots").pairs()
        },
        constants={name: float(item.real()) for name, item in node.get("constants").pairs()},
        dtype=node.get("dtype").identifier(),
        points={name: PointAt(item.text()) for name, item in node.get("points").pairs()},
    )
    scales = {name: item.real() for name, item in node.get("scales").pairs()}
    return SeatRecord(facts, node.get("weights").digest_set(), scales)


def _place(node: Node) -> Seat:
    match node.get("kind").word(("module", "pair", "routed")):
        case "module":
            return ModuleSeat(node.get("path").text())
        case "routed":
            return RoutedSeat(node.get("path").text(), node.get("function").text())
        case _:
            return PairSeat(node.get("producer").text(), node.get("consumers").texts())


def _rows(node: Node) -> tuple[int, int]:
    band = [item.integer() for item in node.items()]
    if len(band) != 2 or band[0] > band[1]:  # noqa: PLR2004
        raise node.wrong("a band [lowest, highest]")
    return band[0], band[1]


def _calibration(node: Node) -> CalibrationFacts | None:
    if node.value is None:
        return None
    return CalibrationFacts(
        artefact=named_digest(node.get("artefact")),
        method=node.get("method").text(),
        samples=node.get("samples").integer(1),
        data_digest=node.get("dataDigest").sha256(),
        heldout_digest=node.get("heldoutDigest").sha256(),
    )


def _gates(node: Node) -> tuple[GateRow, ...]:
    return tuple(
        GateRow(
            name=row.get("name").identifier(),
            op=row.get("op").word(OPS),
            floor=row.get("floor").decimal(),
            measured=row.get("measured").decimal(),
            n=row.get("n").integer(),
            statistic=row.get("statistic").word(STATISTICS),
            samples=_samples(row.get("samples")),
            band=row.get("band").word(BANDS),
        )
        for row in node.items()
    )


def _samples(node: Node) -> tuple[str, ...]:
    if not isinstance(node.value, list):
        raise node.wrong("an array")
    for sample in node.value:  # the bulk of a certificate: no cursor per number
        if not isinstance(sample, str) or not _SAMPLE.fullmatch(sample):
            raise CertificateRefused("DECIMAL", f"{node.where} holds a sample that is not a decimal string")
    return tuple(node.value)


def _reasons(node: Node, what: str) -> dict[str, str]:
    return _table(node, what, lambda item: item.get("reason").text())


def _table(node: Node, key: str, value: Callable[[Node], str]) -> dict[str, str]:
    """Read an array of objects as the map it stands for; a repeated key is refused."""
    entries = [(item.get(key).text(), value(item)) for item in node.items()]
    table = dict(entries)
    if len(table) != len(entries):
        raise node.wrong(f"an array with each {key} once")
    return table
