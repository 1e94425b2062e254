"""What a deployer has seen before, so that older policies, indexes and certificates are noticed. Pure; no file is read.

A memory holds the highest policy version, the highest version per issuer of an index that stood, the highest serial and
its payload digest per place (:func:`place_of`), and the latest moment at which a certificate was accepted. Checks
compare with a memory and never with the other certificates of a set, so the order of verification never matters;
``remember`` takes maxima, so the order of remembering does not either.

Two certificates of one place and one serial are two stories told by one issuer (``EQUIVOCATION``), with or without an
older memory. What was never seen is taken on first use: ``min_serial`` and an index cover that.

Refusal codes: ``POLICY_ROLLBACK``, ``CLOCK_ROLLBACK``, ``ROLLBACK``, ``EQUIVOCATION``, ``INDEX_ROLLBACK``,
``STATE_CORRUPT``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pytest_frt.certs.index import Index
from pytest_frt.certs.outcomes import Accepted
from pytest_frt.certs.policy_types import Policy
from pytest_frt.certs.reading import Node, time_text
from pytest_frt.certs.statement import CellCertificate, Certificate
from pytest_frt.certs.strict_json import Caps, Json, parse, serialise
from pytest_frt.errors import CertificateRefused

SCHEMA: Final = "frt-state/1"
STATE: Final = Caps(size=16 * 1024 * 1024, separators=500_000)
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class Seen:
    """A counter and the payload digest that had it."""

    number: int
    payload: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What was accepted so far; the default is that of a first use.

    Attributes:
        policy_version: Highest version of the policy.
        last_seen: Latest clock at which a certificate was accepted.
        indexes: Issuer to highest index version.
        certificates: Place to highest serial.
    """

    policy_version: int = 0
    last_seen: datetime = NEVER
    indexes: Mapping[str, Seen] = field(default_factory=dict)
    certificates: Mapping[str, Seen] = field(default_factory=dict)

    def check_policy(self, policy: Policy) -> None:
        """Refuse a policy older than one that was used.

        Raises:
            CertificateRefused: ``POLICY_ROLLBACK``, with both versions.
        """
        if policy.version < self.policy_version:
            raise CertificateRefused(
                "POLICY_ROLLBACK",
                f"{policy.source} has version {policy.version}, version {self.policy_version} was used before",
            )

    def check_clock(self, system: datetime, policy: Policy) -> None:
        """Refuse a clock that runs behind a moment that was seen, by more than the policy's skew.

        Raises:
            CertificateRefused: ``CLOCK_ROLLBACK``, with both moments.
        """
        if system < self.last_seen - policy.skew:
            raise CertificateRefused(
                "CLOCK_ROLLBACK", f"the clock says {time_text(system)}, {time_text(self.last_seen)} was seen before"
            )

    def check_index(self, index: Index) -> None:
        """Refuse an index older than one that was seen, or another one of the same version.

        Raises:
            CertificateRefused: ``INDEX_ROLLBACK``, ``EQUIVOCATION``.
        """
        seen = self.indexes.get(index.issuer)
        if seen is None or index.version > seen.number:
            return
        if index.version < seen.number:
            raise CertificateRefused("INDEX_ROLLBACK", f"{index.title}: version {seen.number} was seen before")
        if index.payload_sha256 != seen.payload:
            raise equivocation(index.title, index.payload_sha256, seen.payload)

    def check_certificate(self, certificate: Certificate, pinned: Collection[str]) -> None:
        """Refuse a certificate older than one that was accepted for its place, unless the policy pins it.

        Raises:
            CertificateRefused: ``ROLLBACK`` with both serials, ``EQUIVOCATION`` with both digests.
        """
        seen = self.certificates.get(place_of(certificate))
        if seen is None or certificate.serial > seen.number:
            return
        if certificate.serial == seen.number:
            if certificate.payload_sha256 != seen.payload:
                raise equivocation(_called(certificate), certificate.payload_sha256, seen.payload)
        elif certificate.payload_sha256 not in pinned:
            raise CertificateRefused(
                "ROLLBACK", f"{_called(certificate)}: serial {seen.number} was accepted before, as {seen.payload}"
            )


def place_of(certificate: Certificate) -> str:
    """Return the place whose serials only ever grow: the JSON text of a list in a fixed order.

    Beside issuer and cell it names the deployment, the checkpoint, the machine model and the torch version: one
    release certifies a cell for several of these side by side, and none of them is a newer state of another.
    """
    if isinstance(certificate, CellCertificate):
        record = certificate.record
        key, cell = record.key, record.key.cell
        what = ["cell", cell.structure, cell.impl, cell.host, cell.scheme, cell.device]
        what += [key.form, key.phase, key.size, key.cache]
        about, device = record.host.checkpoint, record.device
        torch = record.software.get("torch", "")
    else:
        plan = certificate.plan
        what = ["plan", plan.name]
        about, device, torch = plan.host.checkpoint, plan.device, plan.software.get("torch", "")
    return json.dumps([certificate.issuer, *what, about, device.arch, device.name, device.threads, torch])


def equivocation(what: str, one: str, other: str) -> CertificateRefused:
    """Return the refusal of two payloads under one counter; both digests are what to send to the issuer."""
    first, second = sorted((one, other))
    return CertificateRefused("EQUIVOCATION", f"{what} exists twice: {first} and {second}")


def remember(
    memory: Memory, policy: Policy, system: datetime, accepted: Iterable[Accepted], standing: Iterable[Index] = ()
) -> Memory:
    """Return the memory after these certificates were accepted (step 15); every number is the highest of both.

    The policy and the indexes that stand count whether or not anything was accepted: what they withdrew stays so. The
    clock is remembered only with a certificate.

    Raises:
        CertificateRefused: another process has seen something newer since these were verified.
    """
    memory.check_policy(policy)
    indexes, certificates, seen = dict(memory.indexes), dict(memory.certificates), memory.last_seen
    held = list(standing)
    for one in accepted:
        seen = max(seen, system.replace(microsecond=0))
        memory.check_certificate(one.certificate, policy.pinned)
        _raise_to(certificates, place_of(one.certificate), Seen(one.certificate.serial, one.name))
        if one.index is not None:
            held.append(one.index)
    for index in held:
        memory.check_index(index)
        _raise_to(indexes, index.issuer, Seen(index.version, index.payload_sha256))
    return Memory(max(memory.policy_version, policy.version), seen, indexes, certificates)


def parse_memory(data: bytes, source: str = "state") -> Memory:
    """Return the memory of a state file's bytes.

    Raises:
        CertificateRefused: ``STATE_CORRUPT``: memory that cannot be read is never taken for none.
    """
    try:
        return _memory(Node(parse(data, STATE), "state"))
    except CertificateRefused as refusal:
        raise CertificateRefused(
            "STATE_CORRUPT",
            f"{source} is damaged: {refusal.message}",
            hint=f"restore it; removing {source} forgets every version that was seen",
        ) from refusal


def memory_bytes(memory: Memory) -> bytes:
    """Return the bytes of a state file.

    Raises:
        CertificateRefused: ``JSON_SIZE``: it has grown beyond what a reader takes.
    """
    document: Json = {
        "schema": SCHEMA,
        "policyVersion": memory.policy_version,
        "lastSeen": time_text(memory.last_seen),
        "indexes": _counters(memory.indexes),
        "certificates": _counters(memory.certificates),
    }
    return serialise(document, STATE)


def _called(certificate: Certificate) -> str:
    return f"serial {certificate.serial} of {certificate.title} by {certificate.issuer}"


def _raise_to(counters: dict[str, Seen], name: str, seen: Seen) -> None:
    counters[name] = max(seen, counters.get(name, seen))


def _counters(counters: Mapping[str, Seen]) -> Json:
    return [{"of": name, "number": seen.number, "payload": seen.payload} for name, seen in sorted(counters.items())]


def _memory(root: Node) -> Memory:
    root.only(("schema", "policyVersion", "lastSeen", "indexes", "certificates")).get("schema").word((SCHEMA,))
    return Memory(
        root.get("policyVersion").integer(),
        root.get("lastSeen").moment(),
        _seen(root.get("indexes")),
        _seen(root.get("certificates")),
    )


def _seen(node: Node) -> dict[str, Seen]:
    counters: dict[str, Seen] = {}
    for item in node.items():
        item.only(("of", "number", "payload"))
        name = item.get("of").text()
        if name in counters:
            raise item.get("of").wrong("named once")
        counters[name] = Seen(item.get("number").integer(), item.get("payload").sha256())
    return counters
