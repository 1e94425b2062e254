"""A publisher's index: which of its certificates are current, and which payloads, kernels and keys it revokes.

An index is a Statement of its own predicate type in the same envelope as a certificate, and one more line or file
(``index.intoto.jsonl``) of a certificate set. It gives what one certificate cannot: an old one can be withdrawn, and a
deployer who is shown old files notices it, since an index has a growing version and a short life.

An issuer has one index, whose version counts up over everything it stands by. ``current`` holds payload digests in
ascending order; ``revoked`` says of each thing why. The one subject of the statement is a digest over ``current``,
since a statement without a subject is malformed and an index may list nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pytest_frt.certs.keys import PublicKey
from pytest_frt.certs.reading import Node, time_text
from pytest_frt.certs.shape import array, digest_set, record, sha256, text, word
from pytest_frt.certs.statement import (
    PREDICATE_BASE,
    Certificate,
    certificate_of,
    check_own_floors,
    exactly,
    open_statement,
    payload_of,
    restrictions,
)
from pytest_frt.certs.strict_json import Json
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused

INDEX_TYPE: Final = f"{PREDICATE_BASE}/certificate-index/v0.1"
KINDS: Final = ("key", "payload", "tree")
_PREFIX: Final = b"frt-index-v1\0"
_MEMBERS: Final = frozenset({"issuer", "version", "issuedAt", "expires", "current", "revoked"})


@dataclass(frozen=True, slots=True)
class Revoked:
    """One withdrawn thing.

    Attributes:
        kind: ``payload`` (a certificate by name), ``tree`` (a kernel by tree digest) or ``key`` (:func:`key_digest`).
        sha256: Its digest.
        reason: Why, for people.
    """

    kind: str
    sha256: str
    reason: str


@dataclass(frozen=True, slots=True)
class Index:
    """A parsed index. Times are claims of the signer.

    Attributes:
        issuer: Whose certificates it lists.
        version: Counter; a reader refuses a lower one than it has seen.
        issued_at, expires: UTC moments; past ``expires`` it proves nothing about what is current.
        current: Payload digests, ascending.
        revoked: What is withdrawn.
        payload_sha256: The index's own name.
    """

    issuer: str
    version: int
    issued_at: datetime
    expires: datetime
    current: tuple[str, ...]
    revoked: tuple[Revoked, ...]
    payload_sha256: str

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"index of {self.issuer}, version {self.version}"

    def reason(self, kind: str, sha256: str) -> str | None:
        """Return why a thing is revoked, or None when it is not."""
        return next((one.reason for one in self.revoked if (one.kind, one.sha256) == (kind, sha256)), None)


_CURRENT: Final = array(sha256)
_REVOKED: Final = array(record(Revoked, ("kind", word(*KINDS)), ("digest", digest_set), ("reason", text)))


def key_digest(public: PublicKey) -> str:
    """Return how an index names a key: the sha256 of its 32 raw bytes."""
    return hashlib.sha256(public.raw).hexdigest()


def build_index(
    *,
    issuer: str,
    version: int,
    issued_at: datetime,
    expires: datetime,
    current: Iterable[str],
    revoked: Sequence[Revoked] = (),
) -> bytes:
    """Return the payload of an index, after reading it back the way a verifier does.

    Raises:
        CertificateRefused: a digest or name is malformed, or something is both current and revoked.
    """
    listed = sorted(set(current))
    withdrawn = sorted(set(revoked), key=lambda one: (one.kind, one.sha256))
    predicate: dict[str, Json] = {
        "crit": [],
        "issuer": issuer,
        "version": version,
        "issuedAt": time_text(issued_at),
        "expires": time_text(expires),
        "current": list(listed),
        "revoked": [{"kind": one.kind, "digest": {"sha256": one.sha256}, "reason": one.reason} for one in withdrawn],
    }
    payload = payload_of(INDEX_TYPE, [FileDigest("index", _current_digest(listed))], predicate)
    parse_index(payload)
    return payload


def parse_index(payload: bytes) -> Index:
    """Return the index of payload bytes. A verifier calls this after the signature was verified.

    Raises:
        CertificateRefused: ``JSON_*``, ``STATEMENT_TYPE``, ``PREDICATE_TYPE``, ``CRIT``, ``SCHEMA``, ``DIGEST``, ...
    """
    return index_of(open_statement(payload), hashlib.sha256(payload).hexdigest())


def index_of(root: Node, name: str) -> Index:
    """Return the index of an opened statement; ``name`` is the sha256 of its payload.

    Raises:
        CertificateRefused: as ``parse_index``.
    """
    exactly(root.get("predicateType"), INDEX_TYPE, "PREDICATE_TYPE")
    predicate = root.get("predicate")
    restrictions(predicate, _MEMBERS)
    index = Index(
        issuer=predicate.get("issuer").identifier(),
        version=predicate.get("version").integer(1),
        issued_at=predicate.get("issuedAt").moment(),
        expires=predicate.get("expires").moment(),
        current=predicate.get("current").read(_CURRENT),
        revoked=predicate.get("revoked").read(_REVOKED),
        payload_sha256=name,
    )
    _check_lists(index, predicate)
    _check_subject(index, root.get("subject"))
    return index


def parse_statement(payload: bytes, name: str = "") -> Certificate | Index:
    """Return the certificate of payload bytes, or the index they are.

    Args:
        payload: The signed bytes.
        name: Their sha256 where the caller has taken it of these bytes; empty takes it here.

    Raises:
        CertificateRefused: as ``parse_index`` and ``statement.parse_payload``.
    """
    root = open_statement(payload)
    read = index_of if root.get("predicateType").value == INDEX_TYPE else certificate_of
    return read(root, name or hashlib.sha256(payload).hexdigest())


def check_statement(payload: bytes) -> Certificate | Index:
    """Return what ``parse_statement`` does, a certificate after judging it by its own floors.

    Raises:
        CertificateRefused: as ``parse_statement``; for a certificate also with the code a verifier would give.
    """
    found = parse_statement(payload)
    if not isinstance(found, Index):
        check_own_floors(found)
    return found


def _check_lists(index: Index, predicate: Node) -> None:
    if list(index.current) != sorted(set(index.current)):
        raise predicate.get("current").wrong("an ascending array with each digest once")
    things = [(one.kind, one.sha256) for one in index.revoked]
    if len(set(things)) != len(things):
        raise predicate.get("revoked").wrong("an array with each thing once")
    if both := {digest for kind, digest in things if kind == "payload"} & set(index.current):
        raise CertificateRefused("SCHEMA", f"certificate {min(both)} is both current and revoked")


def _check_subject(index: Index, node: Node) -> None:
    items = node.items()
    if len(items) != 1 or items[0].get("digest").digest_set() != _current_digest(index.current):
        raise node.wrong("one subject with the digest of what is current")


def _current_digest(current: Sequence[str]) -> str:
    """Return the sha256 over ``frt-index-v1``, a NUL, and the hex digests, each with a line feed."""
    return hashlib.sha256(_PREFIX + "".join(f"{one}\n" for one in current).encode()).hexdigest()
