"""Statements: a record as an in-toto Statement v1, and back. The payload bytes are what a signature covers.

A *cell certificate* states one record; its subjects are the files a third party can hash. A *plan certificate* states
which cell certificates (by payload digest) were attached together and judged again; cells alone do not certify a
composition. The predicate type keeps the two apart under one key.

``crit`` lists predicate members that restrict use. A verifier that does not know one of them refuses, so that a new
restriction is not lost on an old runtime; other members that it does not know are ignored.

``build_*`` runs the parser and the gate judge of the verifier on its own output: what it returns, it would accept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from pytest_frt.certs.decode import NAMED_DIGESTS, plan_of, record_of
from pytest_frt.certs.encode import Issue, JsonObject, cell_predicate, cleaned, named_digest, plan_predicate
from pytest_frt.certs.gates import Demand, judge, judge_plan
from pytest_frt.certs.reading import EMPTY_SHA256, Node
from pytest_frt.certs.strict_json import STATEMENT, Json, parse, serialise
from pytest_frt.contracts.record import FileDigest, PlanRecord, Record
from pytest_frt.errors import CertificateRefused

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_BASE: Final = "https://pytest-frt.dev/attestation"
CELL_TYPE: Final = f"{PREDICATE_BASE}/cell-certificate/v0.1"
PLAN_TYPE: Final = f"{PREDICATE_BASE}/plan-certificate/v0.1"
DEFAULT_ISSUER: Final = "self"
DEFAULT_LIFE: Final = timedelta(days=180)
MAX_SUBJECTS: Final = 1_024
# What a file proves depends on its role; a runtime must know how to find the file of each.
ROLES: Final = ("kernel", "impl", "structure", "reference", "host", "scheme", "dist")
NEEDED_ROLES: Final = ("kernel", "impl", "structure", "reference")


@dataclass(frozen=True, slots=True)
class Claims:
    """What both kinds of certificate say about themselves. Times are claims of the signer.

    Attributes:
        issuer, serial, issued_at, expires_at: See ``encode.Issue``.
        crit: Predicate members that restrict use.
        result: ``PASSED`` or ``FAILED``; only ever a reason to refuse.
        payload_sha256: The certificate's name.
    """

    issuer: str
    serial: int
    issued_at: datetime
    expires_at: datetime
    crit: tuple[str, ...]
    result: str
    payload_sha256: str


@dataclass(frozen=True, slots=True)
class CellCertificate(Claims):
    """A parsed cell certificate; ``binding`` says how weights are bound (``exact`` digests or ``config``)."""

    record: Record
    binding: str

    @property
    def title(self) -> str:
        """The record key, as people and file names use it."""
        return self.record.key.id


@dataclass(frozen=True, slots=True)
class PlanCertificate(Claims):
    """A parsed plan certificate."""

    plan: PlanRecord

    @property
    def title(self) -> str:
        """The plan's name, as people and file names use it."""
        return f"plan-{self.plan.name}"


Certificate: TypeAlias = CellCertificate | PlanCertificate


def build_cell(record: Record, *, issuer: str, serial: int, issued_at: datetime, expires_at: datetime) -> bytes:
    """Return the payload of a cell certificate. Empty files are left out of its subjects; the tree digest binds them.

    Raises:
        CertificateRefused: the record cannot be said, a needed file or gate is missing, or a gate does not hold.
    """
    subjects = tuple(subject for subject in record.subjects if subject.sha256 != EMPTY_SHA256)
    stated = replace(record, refused=cleaned(record.refused), subjects=subjects)
    payload = payload_of(CELL_TYPE, subjects, cell_predicate(stated, Issue(issuer, serial, issued_at, expires_at)))
    certificate = check(payload)
    if not isinstance(certificate, CellCertificate) or certificate.record != stated:
        raise CertificateRefused("SCHEMA", f"record {record.key.id} does not survive being written and read back")
    return payload


def build_plan(plan: PlanRecord, *, issuer: str, serial: int, issued_at: datetime, expires_at: datetime) -> bytes:
    """Return the payload of a plan certificate.

    Raises:
        CertificateRefused: as ``build_cell``.
    """
    stated = replace(plan, dropped=cleaned(plan.dropped))
    subjects = tuple(FileDigest(f"cell/{key}", name) for key, name in zip(plan.keys, plan.members, strict=True))
    payload = payload_of(PLAN_TYPE, subjects, plan_predicate(stated, Issue(issuer, serial, issued_at, expires_at)))
    certificate = check(payload)
    if not isinstance(certificate, PlanCertificate) or certificate.plan != stated:
        raise CertificateRefused("SCHEMA", f"plan {plan.name} does not survive being written and read back")
    return payload


def check(payload: bytes) -> Certificate:
    """Return the certificate of an unsigned payload after judging it by its own floors: what a signer must do first.

    Raises:
        CertificateRefused: with the code a verifier would give.
    """
    certificate = parse_payload(payload)
    check_own_floors(certificate)
    return certificate


def check_own_floors(certificate: Certificate) -> None:
    """Judge a certificate by its own floors.

    Raises:
        CertificateRefused: with the code a verifier would give.
    """
    if certificate.expires_at <= certificate.issued_at:
        raise CertificateRefused("LIFETIME", f"{certificate.title} expires before it is issued")
    own = Demand(result=certificate.result, allow_warn=True)
    if isinstance(certificate, CellCertificate):
        judge(certificate.record, own)
    else:
        judge_plan(certificate.plan, own)


def parse_payload(payload: bytes) -> Certificate:
    """Return the typed certificate of payload bytes. A verifier calls this after the signature was verified.

    Raises:
        CertificateRefused: ``JSON_*``, ``STATEMENT_TYPE``, ``PREDICATE_TYPE``, ``CRIT``, ``SCHEMA``, ``NAME``, ...
    """
    return certificate_of(open_statement(payload), hashlib.sha256(payload).hexdigest())


def open_statement(payload: bytes) -> Node:
    """Return the root of a statement whose predicate may be of any type.

    Raises:
        CertificateRefused: ``JSON_*``, ``STATEMENT_TYPE``, ``SCHEMA``.
    """
    root = Node(parse(payload, STATEMENT), "statement")
    exactly(root.get("_type"), STATEMENT_TYPE, "STATEMENT_TYPE")
    return root


def certificate_of(root: Node, name: str) -> Certificate:
    """Return the typed certificate of an opened statement; ``name`` is the sha256 of its payload.

    Raises:
        CertificateRefused: as ``parse_payload``.
    """
    kind = root.get("predicateType")
    if kind.value not in (CELL_TYPE, PLAN_TYPE):
        raise CertificateRefused("PREDICATE_TYPE", f"{kind.where} is neither {CELL_TYPE} nor {PLAN_TYPE}")
    predicate, subjects = root.get("predicate"), _subjects(root.get("subject"))
    claims = _claims(predicate, name)
    if kind.value == PLAN_TYPE:
        return PlanCertificate(*claims, plan_of(predicate, subjects))
    _check_roles(subjects)
    binding = predicate.get("weights").get("binding").word(("config", "exact"))
    return CellCertificate(*claims, record_of(predicate, subjects), binding)


def exactly(node: Node, value: str, code: str) -> None:
    """Refuse a member that is not this text.

    Raises:
        CertificateRefused: ``code``.
    """
    if node.value != value:
        raise CertificateRefused(code, f"{node.where} is not exactly {value}")


def restrictions(predicate: Node, known: Collection[str]) -> tuple[str, ...]:
    """Return ``crit``: members of a predicate that restrict use, each known here and there.

    Raises:
        CertificateRefused: ``CRIT``: it is missing, or names another member; ``SCHEMA``.
    """
    found = predicate.find("crit")
    if found is None:
        raise CertificateRefused("CRIT", "the predicate has no crit; it is required even when empty")
    named = found.texts()
    for item in named:
        if item not in known or predicate.find(item) is None:
            raise CertificateRefused("CRIT", f"the restriction {item!r} is not known here", hint="update pytest-frt")
    return named


def payload_of(kind: str, subjects: Iterable[FileDigest], predicate: JsonObject) -> bytes:
    """Return the payload bytes of a statement; nothing of it is judged.

    Args:
        kind: Predicate type.
        subjects: What it is about, by name and digest.
        predicate: What it says.

    Raises:
        CertificateRefused: ``JSON_*``: it cannot be written within the caps.
    """
    statement: dict[str, Json] = {
        "_type": STATEMENT_TYPE,
        "subject": [named_digest(subject) for subject in subjects],
        "predicateType": kind,
        "predicate": predicate,
    }
    return serialise(statement, STATEMENT)


def _claims(predicate: Node, name: str) -> tuple[str, int, datetime, datetime, tuple[str, ...], str, str]:
    return (
        predicate.get("issuer").identifier(),
        predicate.get("serial").integer(),
        predicate.get("issuedAt").moment(),
        predicate.get("expiresAt").moment(),
        restrictions(predicate, _KNOWN_MEMBERS),
        predicate.get("result").word(("FAILED", "PASSED")),
        name,
    )


def _subjects(node: Node) -> tuple[FileDigest, ...]:
    if isinstance(node.value, list) and not 0 < len(node.value) <= MAX_SUBJECTS:
        raise node.wrong(f"an array of 1 to {MAX_SUBJECTS} files")
    subjects = node.read(NAMED_DIGESTS)
    if len({subject.name for subject in subjects}) != len(subjects):
        raise node.wrong("an array with each name once")
    for subject in subjects:
        if subject.sha256 == EMPTY_SHA256:  # it would match every empty file there is
            raise CertificateRefused(
                "DIGEST", f"subject {subject.name!r} is an empty file; only treeDigest binds those"
            )
    return subjects


def _check_roles(subjects: tuple[FileDigest, ...]) -> None:
    role_of = {subject.name: subject.name.partition("/")[0] for subject in subjects if "/" in subject.name}
    if missing := [role for role in NEEDED_ROLES if role not in role_of.values()]:
        raise CertificateRefused("ROLE_FILE", f"no subject has the role {', '.join(missing)}")
    # A bare role names no file: nothing would ever be compared with its digest.
    if strange := sorted(subject.name for subject in subjects if role_of.get(subject.name) not in ROLES):
        raise CertificateRefused("ROLE_FILE", f"subject {strange[0]!r} is no file of {', '.join(ROLES)}")


_KNOWN_MEMBERS: Final = frozenset({
    "issuer", "serial", "issuedAt", "expiresAt", "result", "cell", "deployment", "kernel", "host", "weights", "device",
    "software", "seats", "refused", "rows", "dtype", "calibration", "gates", "attempts", "seed", "evidence", "checker",
    "name", "dropped",
})  # fmt: skip
