"""DSSE envelopes, strictly: what is signed, how it is written, and which bytes a reader gets to see.

An Ed25519 signature covers ``PAE(payloadType, payload)``: both, with their byte lengths, so that neither can be
reinterpreted. A certificate *set* is a file with one envelope per line (or one sigstore bundle around an envelope). Its
order means nothing and it is not authenticated as a whole. A certificate's name is the sha256 of its payload bytes;
lines with the same payload are one certificate, and their signers add up.

Rules beyond the DSSE text: the payload type is exactly ours, base64 must be what an encoder writes, duplicate keys and
keys that differ in case only are refused. No algorithm name is read from an envelope: the policy says what a key is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from pytest_frt.certs.keys import PublicKey, SigningKey
from pytest_frt.certs.strict_json import ENVELOPE, Json, parse, serialise
from pytest_frt.errors import CertificateRefused

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_SIGNATURES: Final = 16
MAX_SET_BYTES: Final = 16 * 1024 * 1024
MAX_SET_LINES: Final = 2_048
BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_TO_STANDARD: Final = str.maketrans("-_", "+/")
_KNOWN: Final = ("payload", "payloadType", "signatures")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature as found: ``keyid`` is the sender's hint and may be empty."""

    keyid: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope whose form is right. Nothing in it is authentic yet; the payload has not been parsed.

    ``bundle`` is the line itself where that is a sigstore bundle with a certificate: ``keyless`` looks at it.
    """

    payload: bytes
    signatures: tuple[Signature, ...]
    bundle: bytes = b""

    @property
    def name(self) -> str:
        """The certificate's name: sha256 of the payload bytes."""
        return hashlib.sha256(self.payload).hexdigest()


def pae(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Return the pre-authentication encoding of the DSSE protocol, version 1. Lengths count bytes."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, key: SigningKey) -> str:
    """Return one line of a certificate set: an envelope around ``payload`` with one signature. No line break."""
    return serialise(sealed(payload, Signature(key.public.keyid, key.sign(pae(payload)))), ENVELOPE).decode()


def sealed(payload: bytes, signature: Signature) -> dict[str, Json]:
    """Return the members of an envelope with one signature."""
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": signature.keyid, "sig": base64.b64encode(signature.value).decode()}],
    }


def parse_envelope(line: bytes) -> Envelope:
    """Return the envelope of one line.

    Raises:
        CertificateRefused: ``JSON_*``, ``ENVELOPE`` (members missing or of the wrong type), ``PAYLOAD_TYPE``,
            ``SIG_COUNT`` or ``B64``. Messages show no text of the line: nothing of it is authentic.
    """
    document, bundle = _object(parse(line, ENVELOPE)), b""
    if document.get("mediaType") == BUNDLE_TYPE:  # the envelope inside counts; a certificate beside it is not read here
        material = document.get("verificationMaterial")
        bundle = line if isinstance(material, dict) and "certificate" in material else b""
        document = _object(document.get("dsseEnvelope"))
    for key in document:
        if key not in _KNOWN and key.casefold() in {known.casefold() for known in _KNOWN}:
            raise CertificateRefused("ENVELOPE", "a member differs from a DSSE name in case only")
    if document.get("payloadType") != PAYLOAD_TYPE:
        raise CertificateRefused("PAYLOAD_TYPE", f"the payload type is not exactly {PAYLOAD_TYPE}")
    found = document.get("signatures")
    if not isinstance(found, list) or not 0 < len(found) <= MAX_SIGNATURES:
        raise CertificateRefused("SIG_COUNT", f"an envelope carries 1 to {MAX_SIGNATURES} signatures")
    return Envelope(_base64(document.get("payload")), tuple(_signature(item) for item in found), bundle)


def signers(envelope: Envelope, keys: Collection[PublicKey]) -> frozenset[PublicKey]:
    """Return which of ``keys`` signed the payload. Key bytes count, never key ids: one key is one signer."""
    message = pae(envelope.payload)
    found: set[PublicKey] = set()
    for signature in envelope.signatures:
        hinted = (key for key in keys if not signature.keyid or key.keyid == signature.keyid)
        found.update(key for key in hinted if key.verifies(signature.value, message))
    return frozenset(found)


def split_set(data: bytes) -> tuple[bytes, ...]:
    """Return the non-empty lines of a certificate set.

    Raises:
        CertificateRefused: ``SET_SIZE``: too many bytes or lines.
    """
    if len(data) > MAX_SET_BYTES or data.count(b"\n") > MAX_SET_LINES:
        raise CertificateRefused(
            "SET_SIZE", f"{len(data)} bytes in {data.count(10)} lines, over {MAX_SET_BYTES} or {MAX_SET_LINES}"
        )
    return tuple(line for line in data.split(b"\n") if line.strip())


def join_set(lines: Iterable[bytes]) -> bytes:
    """Return a certificate set of these lines, which a reader takes.

    Raises:
        CertificateRefused: ``SET_SIZE``: too many bytes or lines.
    """
    data = b"".join(line + b"\n" for line in lines)
    split_set(data)
    return data


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise CertificateRefused("ENVELOPE", "the line is not an envelope object")
    return value


def _signature(item: Json) -> Signature:
    members = _object(item)
    keyid = members.get("keyid", "")
    if not isinstance(keyid, str):
        raise CertificateRefused("ENVELOPE", "a key id is not text")
    return Signature(keyid, _base64(members.get("sig")))


def _base64(text: Json) -> bytes:
    """Decode either alphabet; only what an encoder would have written is taken."""
    if not isinstance(text, str) or not text:
        raise CertificateRefused("B64", "a payload or signature is missing or empty")
    other = ("-" in text or "_" in text) and "+" not in text and "/" not in text
    standard = text.translate(_TO_STANDARD) if other else text
    try:
        data = binascii.a2b_base64(standard, strict_mode=True)
    except ValueError:
        raise CertificateRefused("B64", "a payload or signature is not base64") from None
    if binascii.b2a_base64(data, newline=False).decode() != standard:
        raise CertificateRefused("B64", "a payload or signature is not base64 as an encoder writes it")
    return data
