"""Other forms of a certificate: a sigstore bundle around one signature, and a derived in-toto ``test-result``.

A bundle carries the same payload and signature, so its name and what it proves stay. A ``test-result`` is another
statement with another type: policy engines read it, this project never acts on it. Its scope sits in members that
readers of that type may ignore, and it holds no number that a deployer could hold against floors of his own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_frt.certs.dsse import BUNDLE_TYPE, Envelope, Signature, sealed
from pytest_frt.certs.encode import JsonObject, named_digest
from pytest_frt.certs.statement import CellCertificate, Certificate, payload_of
from pytest_frt.certs.strict_json import ENVELOPE, Json, serialise
from pytest_frt.certs.tree import KERNEL
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import UsageFault

TEST_RESULT_TYPE: Final = "https://in-toto.io/attestation/test-result/v0.1"
WARN: Final = "warn"


def choose_signature(envelopes: Sequence[Envelope], keyid: str) -> tuple[Envelope, Signature]:
    """Return the one signature that is asked for.

    Args:
        envelopes: Envelopes around one payload.
        keyid: Start of the key id of the signature; empty when there is one only.

    Raises:
        UsageFault: no signature, or several, have such a key id.
    """
    pairs = [(envelope, one) for envelope in envelopes for one in envelope.signatures]
    found = [pair for pair in pairs if pair[1].keyid.startswith(keyid)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(one.keyid or "(no key id)" for _, one in pairs)
    raise UsageFault(
        f"{len(found)} signatures have a key id that starts with {keyid!r}; a bundle carries one",
        hint=f"--keyid=ID; here are {known}",
    )


def sigstore_bundle(envelope: Envelope, signature: Signature) -> bytes:
    """Return a sigstore bundle v0.3 with one signature by a plain key; the key id is a hint, as everywhere.

    The verifier must be told the key, and that neither a transparency log nor a timestamp is to be expected.
    """
    material: Json = {"publicKey": {"hint": signature.keyid}, "tlogEntries": []}
    inner = sealed(envelope.payload, signature)
    document: Json = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": inner}
    return serialise(document, ENVELOPE)


def test_result(certificate: Certificate) -> bytes:
    """Return the payload of a ``test-result/v0.1`` statement about the kernel files of a cell certificate.

    ``configuration`` names structure.yaml and the certificate by digest; ``passedTests`` and ``warnedTests`` name the
    gates.

    Raises:
        UsageFault: a plan has no kernel files of its own.
    """
    if not isinstance(certificate, CellCertificate):
        raise UsageFault(f"{certificate.title} is a plan: it names cells, not files", hint="export its cells")
    record = certificate.record
    files = [subject for subject in record.subjects if subject.name.startswith(f"{KERNEL}/")]
    configuration = [subject for subject in record.subjects if subject.name.startswith("structure/")]
    configuration.append(FileDigest(f"certificate/{certificate.title}", certificate.payload_sha256))
    warned = sorted(row.name for row in record.gates if row.band == WARN)
    predicate: JsonObject = {
        "result": "WARNED" if warned else "PASSED",
        "configuration": [named_digest(one) for one in configuration],
        "passedTests": [*sorted(row.name for row in record.gates if row.band != WARN)],
        "warnedTests": [*warned],
        "failedTests": [],
    }
    return payload_of(TEST_RESULT_TYPE, files, predicate)
