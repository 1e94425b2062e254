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

from pytest_frt.certs.encode import named_digest
from pytest_frt.certs.keys import PublicKey
from pytest_frt.certs.reading import Node, time_text
from pytest_frt.certs.statement import PREDICATE_BASE, STATEMENT_TYPE
from pytest_frt.certs.strict_json import STATEMENT, Json, parse, serialise
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
    statement: dict[str, Json] = {
        "_type": STATEMENT_TYPE,
        "subject": [named_digest(FileDigest("index", _current_digest(listed)))],
        "predicateType": INDEX_TYPE,
        "predicate": predicate,
    }
    payload = serialise(statement, STATEMENT)
    parse_index(payload)
    return payload


def parse_index(payload: bytes) -> Index:
    """Return the index of payload bytes. A verifier calls this after the signature was verified.

    Raises:
        CertificateRefused: ``JSON_*``, ``STATEMENT_TYPE``, ``PREDICATE_TYPE``, ``CRIT``, ``SCHEMA``, ``DIGEST``, ...
    """
    root = Node(parse(payload, STATEMENT), "statement")
    _exactly(root.get("_type"), STATEMENT_TYPE, "STATEMENT_TYPE")
    _exactly(root.get("predicateType"), INDEX_TYPE, "PREDICATE_TYPE")
    predicate = root.get("predicate")
    _check_crit(predicate)
    index = Index(
        issuer=predicate.get("issuer").identifier(),
        version=predicate.get("version").integer(1),
        issued_at=predicate.get("issuedAt").moment(),
        expires=predicate.get("expires").moment(),
        current=tuple(item.sha256() for item in predicate.get("current").items()),
        revoked=tuple(_revoked(item) for item in predicate.get("revoked").items()),
        payload_sha256=hashlib.sha256(payload).hexdigest(),
    )
    _check_lists(index, predicate)
    _check_subject(index, root.get("subject"))
    return index


def _exactly(node: Node, value: str, code: str) -> None:
    if node.value != value:
        raise CertificateRefused(code, f"{node.where} is not exactly {value}")


def _check_crit(predicate: Node) -> None:
    crit = predicate.find("crit")
    if crit is None:
        raise CertificateRefused("CRIT", "the predicate has no crit; it is required even when empty")
    for item in crit.texts():
        if item not in _MEMBERS:
            raise CertificateRefused("CRIT", f"the restriction {item!r} is not known here", hint="update pytest-frt")


def _revoked(node: Node) -> Revoked:
    return Revoked(node.get("kind").word(KINDS), node.get("digest").digest_set(), node.get("reason").text())


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
