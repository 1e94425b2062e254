"""The publisher's side of an index: which certificates of a directory are current, and the file that says so.

Only certificates that the signing key has signed are listed: a file that somebody put into the directory gains nothing
by lying there. Of the certificates of one place (``state.place_of``) the one with the highest serial is current.
Versions are seconds since the epoch, or one more than the index that is there: they grow even when that was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pytest_frt.certs import dsse, store
from pytest_frt.certs.files import read_some, write_atomic
from pytest_frt.certs.index import Index, Revoked, build_index, parse_index
from pytest_frt.certs.keys import PublicKey, SigningKey
from pytest_frt.certs.state import equivocation, place_of
from pytest_frt.certs.statement import CellCertificate, Certificate, parse_payload
from pytest_frt.errors import CertificateRefused, UsageFault

FOREIGN: Final = "not signed by this key"
EXPIRED: Final = "expired"
SUPERSEDED: Final = "superseded by a higher serial"
WITHDRAWN: Final = "revoked"


@dataclass(frozen=True, slots=True)
class Listing:
    """What an index would list.

    Attributes:
        current: Certificates to list.
        left: ``file:line`` of every other certificate, and why it is not listed.
    """

    current: tuple[Certificate, ...]
    left: dict[str, str]

    @property
    def issuers(self) -> tuple[str, ...]:
        """Issuers of what is current, sorted."""
        return tuple(sorted({one.issuer for one in self.current}))


@dataclass(frozen=True, slots=True)
class Found:
    """An index file as it lies in a directory.

    Attributes:
        index: Its index.
        payload: The bytes that were signed.
    """

    index: Index
    payload: bytes


def held(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a directory's index, from reading what it says to writing it anew.

    Raises:
        UsageFault: the directory is missing.
        CertificateRefused: ``FILE_BUSY``, or ``SET_FILE`` for a lock that is no regular file.
        StorageFault: no lock can be made here.
    """
    if not folder.is_dir():
        raise UsageFault(f"{folder} is no directory of certificates", hint="check the path")
    return store.held(folder / store.INDEX_NAME)


def survey(folder: Path, public: PublicKey, now: datetime, revoked: Sequence[Revoked] = ()) -> Listing:
    """Return which certificates below a directory are current.

    Args:
        folder: Read recursively.
        public: Key whose certificates count.
        now: What has expired by then is not current.
        revoked: Payloads and kernel trees that are not current whatever their serial.

    Raises:
        CertificateRefused: a file is no certificate set (its own code), or two certificates of one place have the same
            serial (``EQUIVOCATION``).
        UsageFault: the directory is missing.
    """
    left: dict[str, str] = {}
    places: dict[str, dict[int, tuple[str, Certificate]]] = {}
    withdrawn = {(one.kind, one.sha256) for one in revoked}
    for source, certificate in _own(folder, public, left):
        if why := _unlisted(certificate, now, withdrawn):
            left[source] = why
            continue
        serials = places.setdefault(place_of(certificate), {})
        if certificate.serial in serials:
            _, other = serials[certificate.serial]
            raise equivocation(certificate.title, certificate.payload_sha256, other.payload_sha256)
        serials[certificate.serial] = (source, certificate)
    for serials in places.values():
        left |= {serials[one][0]: SUPERSEDED for one in serials if one != max(serials)}
    return Listing(tuple(serials[max(serials)][1] for serials in places.values()), left)


def previous(folder: Path, public: PublicKey) -> Found | None:
    """Return the index that lies in a directory; None when there is none.

    Raises:
        CertificateRefused: it is malformed, or ``SIG_NONE``: this key did not sign it, so its revocations and version
            are nothing to build on.
    """
    path = folder / store.INDEX_NAME
    if not path.exists():
        return None
    envelopes = [dsse.parse_envelope(line) for line in dsse.split_set(read_some(path, dsse.MAX_SET_BYTES + 1))]
    if not any(public in dsse.signers(envelope, [public]) for envelope in envelopes):
        raise CertificateRefused("SIG_NONE", f"{path} was not signed by {public.keyid}", hint="move it away first")
    payloads = {envelope.payload for envelope in envelopes}
    if len(payloads) != 1:
        raise CertificateRefused("SCHEMA", f"{path} holds {len(payloads)} indexes", hint="move it away first")
    (payload,) = payloads
    return Found(parse_index(payload), payload)


def write_index(
    folder: Path, listing: Listing, key: SigningKey, *, issuer: str, now: datetime, expires: datetime,
    revoked: Sequence[Revoked], after: Found | None,
) -> Index:  # fmt: skip
    """Write the index of a directory, signed, in place of the one that was there, and return it.

    The caller holds the lock (``held``) since before ``previous``.

    Raises:
        CertificateRefused: it cannot be said, or ends before it begins (``LIFETIME``).
        UsageFault: the index that is there belongs to another issuer.
        StorageFault: the file is as it was.
    """
    if after is not None and after.index.issuer != issuer:
        raise UsageFault(f"{folder / store.INDEX_NAME} is of issuer {after.index.issuer}, not {issuer}")
    if expires <= now:
        raise CertificateRefused("LIFETIME", "the index would end before it begins", hint="give a later --expires")
    lowest = 1 if after is None else after.index.version + 1
    payload = build_index(
        issuer=issuer,
        version=max(lowest, int(now.timestamp())),
        issued_at=now,
        expires=expires,
        current=[one.payload_sha256 for one in listing.current if one.issuer == issuer],
        revoked=revoked,
    )
    write_atomic(folder / store.INDEX_NAME, dsse.sign(payload, key).encode() + b"\n")
    return parse_index(payload)


def cosign(folder: Path, key: SigningKey) -> Index:
    """Add a signature to the index of a directory, for rules that need several owners.

    Raises:
        CertificateRefused: it is malformed.
        UsageFault: there is none.
        StorageFault: the file is as it was.
    """
    path = folder / store.INDEX_NAME
    with held(folder):
        lines = dsse.split_set(read_some(path, dsse.MAX_SET_BYTES + 1))
        payloads = {dsse.parse_envelope(line).payload for line in lines}
        if len(payloads) != 1:
            raise CertificateRefused("SCHEMA", f"{path} holds {len(payloads)} indexes")
        (payload,) = payloads
        index = parse_index(payload)
        store.put_line(path, dsse.sign(payload, key))
    return index


def _own(folder: Path, public: PublicKey, left: dict[str, str]) -> Iterator[tuple[str, Certificate]]:
    """Yield certificates that ``public`` signed, each payload once; note what it did not sign."""
    names: set[str] = set()
    for found in store.read(folder):
        if isinstance(found, store.BadSet):
            raise CertificateRefused(found.code, f"{found.path}: {found.message}")
        if found.path.name == store.INDEX_NAME:
            continue
        for number, line in enumerate(found.lines, start=1):
            source = f"{found.path}:{number}"
            try:
                envelope = dsse.parse_envelope(line)
                if public not in dsse.signers(envelope, [public]):
                    left[source] = FOREIGN
                elif envelope.name not in names:
                    names.add(envelope.name)
                    yield source, parse_payload(envelope.payload)
            except CertificateRefused as refusal:
                raise CertificateRefused(refusal.refusal_code, f"{source}: {refusal.message}") from refusal


def _unlisted(certificate: Certificate, now: datetime, withdrawn: set[tuple[str, str]]) -> str:
    if now > certificate.expires_at:
        return EXPIRED
    things = {("payload", certificate.payload_sha256)}
    if isinstance(certificate, CellCertificate):
        things.add(("tree", certificate.record.kernel.tree_digest))
    else:
        things |= {("payload", member) for member in certificate.plan.members}
    return WITHDRAWN if things & withdrawn else ""
