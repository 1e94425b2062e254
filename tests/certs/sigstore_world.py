"""A certificate authority, a certificate log and a signature log of our own, as one pinned trusted root describes them.

Keyless signatures are made here the way the public services make them, so that the verifier of the ``sigstore`` package
can be run whole and without a network. What is not run anywhere is the path over those services themselves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pytest_frt.certs import dsse

ISSUER = "https://token.example.org"
REPOSITORY = "https://code.example.org/acme/toy"
SIGNER = f"{REPOSITORY}/ci/certify.yml@refs/heads/main"
SIGNED_AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LOG = "log.example.org"
SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
FULCIO = "1.3.6.1.4.1.57264.1."


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def log_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(spki(key)).digest()


def signature(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(SHA256()))


def utf8(text: str) -> bytes:
    data = text.encode()
    return b"\x0c" + (bytes([len(data)]) if len(data) < 128 else b"\x81" + bytes([len(data)])) + data


def fresh() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass
class Services:
    """The three services with their keys.

    Attributes:
        authority: Key of the certificate authority.
        ct: Key of the certificate log.
        log: Key of the signature log.
    """

    authority: ec.EllipticCurvePrivateKey = field(default_factory=fresh)
    ct: ec.EllipticCurvePrivateKey = field(default_factory=fresh)
    log: ec.EllipticCurvePrivateKey = field(default_factory=fresh)

    @property
    def name(self) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Example authority")])

    def root(self) -> x509.Certificate:
        return (
            x509.CertificateBuilder(self.name, self.name, self.authority.public_key(), 1)
            .not_valid_before(SIGNED_AT - timedelta(days=100))
            .not_valid_after(SIGNED_AT + timedelta(days=1000))
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.authority.public_key()), critical=False)
            .sign(self.authority, SHA256())
        )

    def trusted_root(self) -> bytes:
        """Return the file a policy pins."""
        valid = {"start": "2026-01-01T00:00:00Z"}

        def instance(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            public = {"rawBytes": b64(spki(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
            where = {"baseUrl": f"https://{LOG}", "hashAlgorithm": "SHA2_256"}
            return {**where, "publicKey": public, "logId": {"keyId": b64(log_id(key))}}

        chain = {"certificates": [{"rawBytes": b64(self.root().public_bytes(Encoding.DER))}]}
        authority = {"subject": {"organization": "x", "commonName": "x"}, "uri": f"https://{LOG}"}
        return json.dumps(
            {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [instance(self.log)],
                "certificateAuthorities": [{**authority, "certChain": chain, "validFor": valid}],
                "ctlogs": [instance(self.ct)],
                "timestampAuthorities": [],
            }
        ).encode()

    def identity(self, key: ec.EllipticCurvePrivateKey, claims: dict[str, str]) -> x509.Certificate:
        """Return a certificate of ten minutes for a workflow, with the proof that the certificate log saw it."""
        builder = (
            x509.CertificateBuilder(self.name, x509.Name([]), key.public_key(), 2)
            .not_valid_before(SIGNED_AT - timedelta(minutes=5))
            .not_valid_after(SIGNED_AT + timedelta(minutes=5))
            .add_extension(usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(claims["9"])]), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()), critical=False
            )
        )
        for number, text in claims.items():
            extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(FULCIO + number), utf8(text))
            builder = builder.add_extension(extension, critical=False)
        before = builder.sign(self.authority, SHA256()).tbs_certificate_bytes
        stamp = int(SIGNED_AT.timestamp() * 1000)
        issuer = hashlib.sha256(spki(self.authority)).digest()
        entry = struct.pack("!BBQH", 0, 0, stamp, 1) + issuer + len(before).to_bytes(3, "big") + before + b"\0\0"
        seal = signature(self.ct, entry)
        sct = (
            b"\0" + log_id(self.ct) + struct.pack("!Q", stamp) + b"\0\0" + b"\4\3" + struct.pack("!H", len(seal)) + seal
        )
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        octets = b"\x04" + (bytes([len(listed)]) if len(listed) < 128 else b"\x81" + bytes([len(listed)])) + listed
        return builder.add_extension(x509.UnrecognizedExtension(SCTS, octets), critical=False).sign(
            self.authority, SHA256()
        )

    def sign(self, payload: bytes, **claims: str) -> dict[str, Any]:
        """Return the bundle of a workflow's signature over a payload."""
        key = fresh()
        said = {"8": ISSUER, "9": SIGNER, "12": REPOSITORY} | {name.lstrip("_"): text for name, text in claims.items()}
        certificate = self.identity(key, said)
        seal = signature(key, dsse.pae(payload))
        envelope = {
            "payload": b64(payload),
            "payloadType": dsse.PAYLOAD_TYPE,
            "signatures": [{"sig": b64(seal)}],
        }
        material = {
            "certificate": {"rawBytes": b64(certificate.public_bytes(Encoding.DER))},
            "tlogEntries": [self.logged(payload, seal, certificate)],
        }
        return {"mediaType": dsse.BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}

    def logged(self, payload: bytes, seal: bytes, certificate: x509.Certificate) -> dict[str, Any]:
        """Return the entry of a log that holds nothing else, with its promise, proof and checkpoint."""
        pem = certificate.public_bytes(Encoding.PEM)
        digest = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        spec = {
            "envelopeHash": digest,
            "payloadHash": digest,
            "signatures": [{"signature": b64(seal), "verifier": b64(pem)}],
        }
        body = json.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}).encode()
        when = int(SIGNED_AT.timestamp())
        promised = {"body": b64(body), "integratedTime": when, "logID": log_id(self.log).hex(), "logIndex": 0}
        promise = signature(self.log, json.dumps(promised, sort_keys=True, separators=(",", ":")).encode())
        leaf = hashlib.sha256(b"\0" + body).digest()
        note = f"{LOG} - 1\n1\n{b64(leaf)}\n"
        stamp = b64(log_id(self.log)[:4] + signature(self.log, note.encode()))
        proof = {
            "logIndex": "0",
            "rootHash": b64(leaf),
            "treeSize": "1",
            "hashes": [],
            "checkpoint": {"envelope": f"{note}\n\u2014 {LOG} {stamp}\n"},
        }
        return {
            "logIndex": "0",
            "logId": {"keyId": b64(log_id(self.log))},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(when),
            "inclusionPromise": {"signedEntryTimestamp": b64(promise)},
            "inclusionProof": proof,
            "canonicalizedBody": b64(body),
        }


def usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )
