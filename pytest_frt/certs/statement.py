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
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from pytest_frt.certs.decode import NAMED_DIGESTS, plan_of, record_of
from pytest_frt.certs.encode import Issue, JsonObject, cell_predicate, cleaned, plan_predicate
from pytest_frt.certs.encode import named_digest as descriptor
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
    payload = _payload(CELL_TYPE, subjects, cell_predicate(stated, Issue(issuer, serial, issued_at, expires_at)))
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
    payload = _payload(PLAN_TYPE, subjects, plan_predicate(stated, Issue(issuer, serial, issued_at, expires_at)))
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
    if certificate.expires_at <= certificate.issued_at:
        raise CertificateRefused("LIFETIME", f"{certificate.title} expires before it is issued")
    own = Demand(result=certificate.result, allow_warn=True)
    if isinstance(certificate, CellCertificate):
        judge(certificate.record, own)
    else:
        judge_plan(certificate.plan, own)
    return certificate


def parse_payload(payload: bytes, name: str = "") -> Certificate:
    """Return the typed certificate of payload bytes. A verifier calls this after the signature was verified.

    Args:
        payload: The signed bytes.
        name: Their sha256 where the caller has taken it of these bytes; empty takes it here.

    Raises:
        CertificateRefused: ``JSON_*``, ``STATEMENT_TYPE``, ``PREDICATE_TYPE``, ``CRIT``, ``SCHEMA``, ``NAME``, ...
    """
    root = Node(parse(payload, STATEMENT), "statement")
    _exactly(root.get("_type"), STATEMENT_TYPE, "STATEMENT_TYPE")
    kind = root.get("predicateType")
    if kind.value not in (CELL_TYPE, PLAN_TYPE):
        raise CertificateRefused("PREDICATE_TYPE", f"{kind.where} is neither {CELL_TYPE} nor {PLAN_TYPE}")
    predicate, subjects = root.get("predicate"), _subjects(root.get("subject"))
    claims = _claims(predicate, name or hashlib.sha256(payload).hexdigest())
    if kind.value == PLAN_TYPE:
        return PlanCertificate(*claims, plan_of(predicate, subjects))
    _check_roles(subjects)
    binding = predicate.get("weights").get("binding").word(("config", "exact"))
    return CellCertificate(*claims, record_of(predicate, subjects), binding)


def _payload(kind: str, subjects: tuple[FileDigest, ...], predicate: JsonObject) -> bytes:
    statement: dict[str, Json] = {
        "_type": STATEMENT_TYPE,
        "subject": [descriptor(subject) for subject in subjects],
        "predicateType": kind,
        "predicate": predicate,
    }
    return serialise(statement, STATEMENT)


def _claims(predicate: Node, name: str) -> tuple[str, int, datetime, datetime, tuple[str, ...], str, str]:
    crit = predicate.find("crit")
    if crit is None:
        raise CertificateRefused("CRIT", "the predicate has no crit; it is required even when empty")
    for item in crit.texts():
        if item not in _KNOWN_MEMBERS or predicate.find(item) is None:
            raise CertificateRefused("CRIT", f"the restriction {item!r} is not known here", hint="update pytest-frt")
    return (
        predicate.get("issuer").identifier(),
        predicate.get("serial").integer(),
        predicate.get("issuedAt").moment(),
        predicate.get("expiresAt").moment(),
        crit.texts(),
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
    roles = {subject.name.partition("/")[0] for subject in subjects if "/" in subject.name}
    if missing := [role for role in NEEDED_ROLES if role not in roles]:
        raise CertificateRefused("ROLE_FILE", f"no subject has the role {', '.join(missing)}")
    if strange := sorted(subject.name for subject in subjects if subject.name.partition("/")[0] not in ROLES):
        raise CertificateRefused("ROLE_FILE", f"subject {strange[0]!r} has no role of {', '.join(ROLES)}")


def _exactly(node: Node, value: str, code: str) -> None:
    if node.value != value:
        raise CertificateRefused(code, f"{node.where} is not exactly {value}")


_KNOWN_MEMBERS: Final = frozenset({
    "issuer", "serial", "issuedAt", "expiresAt", "result", "cell", "deployment", "kernel", "host", "weights", "device",
    "software", "seats", "refused", "rows", "dtype", "calibration", "gates", "attempts", "seed", "evidence", "checker",
    "name", "dropped",
})  # fmt: skip
