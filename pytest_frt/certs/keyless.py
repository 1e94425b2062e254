"""Keyless signatures: a sigstore bundle whose short-lived certificate names a workflow that the policy lists.

Needs the extra ``sigstore``; nothing of it is imported before a bundle with a certificate meets a policy that lists an
identity. Verification opens no socket: the trusted root (authority, certificate log, signature log) is a file that the
policy pins by sha256. The ``sigstore`` package checks certificate, logs and signature; this module decides what it gets
to see and what its answer means:

- it gets a line that the strict parser took, written again, so that both read the same members;
- the payload it returns must be byte for byte the one that is parsed later, and of our payload type;
- the certificate must name issuer, source repository and signing workflow exactly as the policy does.

The time of such a signature is the log's and not the signer's, so a keyless signer has no window of its own.

``sign`` asks the public services for a certificate and a log entry. It needs a network and an identity token; what asks
them is the one part of this module that no test runs.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pytest_frt.certs.dsse import PAYLOAD_TYPE, Envelope, parse_envelope
from pytest_frt.certs.files import read_some
from pytest_frt.certs.policy_types import KeylessIdentity, KeylessSigner
from pytest_frt.certs.reading import Node
from pytest_frt.certs.strict_json import ENVELOPE, parse
from pytest_frt.errors import CertificateRefused, MissingExtra, UsageFault

EXTRA: Final = "sigstore"
MAX_ROOT_BYTES: Final = 1024 * 1024
_MEMBERS: Final = ("owner", "issuer", "source_repository", "build_signer_uri", "trusted_root")


@dataclass(frozen=True, slots=True)
class KeylessFound:
    """Who signed without a key.

    Attributes:
        signers: Identities of the policy, each owner once.
        refusal: Why bundles that are there could not be looked at; None when they were.
    """

    signers: tuple[KeylessSigner, ...] = ()
    refusal: CertificateRefused | None = None


def read_identity(node: Node) -> KeylessIdentity:
    """Return one ``[[sigstore]]`` entry of a policy.

    Raises:
        CertificateRefused: ``POLICY_SCHEMA`` or ``DIGEST``.
    """
    node.only(_MEMBERS)
    root = node.get("trusted_root").only(("path", "sha256"))
    return KeylessIdentity(
        owner=node.get("owner").identifier(),
        issuer=_uri(node.get("issuer")),
        source_repository=_uri(node.get("source_repository")),
        build_signer_uri=_uri(node.get("build_signer_uri")),
        root=root.get("path").text(),
        root_sha256=root.get("sha256").sha256(),
    )


def _uri(node: Node) -> str:
    text = node.text()
    if not text.startswith("https://") or not text.isascii() or " " in text:
        raise node.wrong("an https:// URI")
    return text


def check_identities(identities: Sequence[KeylessIdentity]) -> None:
    """Refuse one workflow under two owners: it would count twice against a threshold.

    Raises:
        CertificateRefused: ``POLICY_DUPKEY``.
    """
    seen: dict[tuple[str, str, str], str] = {}
    for one in identities:
        key = (one.issuer, one.source_repository, one.build_signer_uri)
        if seen.setdefault(key, one.owner) != one.owner:
            raise CertificateRefused(
                "POLICY_DUPKEY", f"workflow {one.build_signer_uri} is listed twice: {seen[key]} and {one.owner}"
            )


def signers(envelopes: Iterable[Envelope], identities: Sequence[KeylessIdentity], policy_file: str) -> KeylessFound:
    """Return the owners whose workflows signed one of the envelopes.

    Args:
        envelopes: Envelopes around one payload; those that are no bundle with a certificate are left alone.
        identities: What the policy lists.
        policy_file: The policy; relative paths of trusted roots start beside it.
    """
    bundles = [envelope for envelope in envelopes if envelope.bundle]
    found: dict[str, KeylessSigner] = {}
    refusal: CertificateRefused | None = None
    for one in identities if bundles else ():
        try:
            verifier = _verifier(Path(policy_file).parent / one.root, one.root_sha256)
        except CertificateRefused as refused:
            refusal = refused
            continue
        if any(_signed(verifier, envelope, one) for envelope in bundles):
            found[one.owner] = KeylessSigner(one.owner)
    return KeylessFound(tuple(found[owner] for owner in sorted(found)), refusal)


def sign(payload: bytes, token: str = "") -> str:
    """Return one line of a certificate set: a bundle of a keyless signature over exactly these bytes.

    Args:
        payload: A statement that was checked.
        token: Identity token; empty takes the one that the surrounding CI job offers, else opens a browser.

    Raises:
        MissingExtra: the extra is not installed.
        UsageFault: there is no usable identity, or the services cannot be reached.
        CertificateRefused: ``B64`` or ``ENVELOPE``: what came back is around other bytes.
    """
    if find_spec(EXTRA) is None:
        raise MissingExtra("keyless signatures need sigstore", hint=f"pip install 'pytest-frt[{EXTRA}]'")
    try:
        bundle = _asked(payload, token)
    except (importlib.import_module("sigstore.errors").Error, OSError) as fault:  # OSError: no network
        raise UsageFault(
            f"no keyless signature could be made: {fault}", hint="check network and identity token, or sign with --key"
        ) from fault
    line = json.dumps(json.loads(bundle.to_json()), separators=(",", ":"))
    if parse_envelope(line.encode()).payload != payload:
        raise CertificateRefused("ENVELOPE", "the bundle that came back is around another payload")
    return line


def _asked(payload: bytes, token: str) -> Any:  # noqa: ANN401 (as _verifier)
    models, oidc = importlib.import_module("sigstore.models"), importlib.import_module("sigstore.oidc")
    signing, envelopes = importlib.import_module("sigstore.sign"), importlib.import_module("sigstore.dsse")
    trust = models.ClientTrustConfig.production()
    text = token or oidc.detect_credential()
    identity = oidc.IdentityToken(text) if text else oidc.Issuer(trust.signing_config.get_oidc_url()).identity_token()
    with signing.SigningContext.from_trust_config(trust).signer(identity) as signer:
        return signer.sign_dsse(envelopes.Statement(payload))


@lru_cache(maxsize=8)
def _verifier(root: Path, sha256: str) -> Any:  # noqa: ANN401 (a class of a package that need not be installed)
    """Return a verifier over a pinned trusted root.

    Raises:
        CertificateRefused: ``KEYLESS_EXTRA`` or ``TRUSTED_ROOT``.
    """
    if find_spec(EXTRA) is None:
        raise CertificateRefused(
            "KEYLESS_EXTRA",
            "the signature is keyless, and sigstore is not installed",
            hint="install pytest-frt[sigstore]",
        )
    data = read_some(root, MAX_ROOT_BYTES) if root.is_file() else b""  # one that is longer has another digest
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise CertificateRefused("TRUSTED_ROOT", f"{root} has sha256 {found}, the policy pins {sha256}")
    models, verify = importlib.import_module("sigstore.models"), importlib.import_module("sigstore.verify")
    with tempfile.NamedTemporaryFile(suffix=".json") as copy:  # what was hashed is what is read
        copy.write(data)
        copy.flush()
        try:
            return verify.Verifier(trusted_root=models.TrustedRoot.from_file(copy.name))
        except _faults() as fault:
            raise CertificateRefused("TRUSTED_ROOT", f"{root} is no trusted root: {fault}") from fault


def _faults() -> tuple[type[Exception], ...]:
    """Return what the package and the parser of certificates raise over members and certificates of an odd kind."""
    crypto, x509 = importlib.import_module("cryptography.exceptions"), importlib.import_module("cryptography.x509")
    own = importlib.import_module("sigstore.errors").Error, crypto.InvalidSignature, crypto.UnsupportedAlgorithm
    odd = x509.DuplicateExtension, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType
    return (*own, *odd, ValueError, TypeError, AttributeError, LookupError, ArithmeticError)


def _signed(verifier: Any, envelope: Envelope, identity: KeylessIdentity) -> bool:  # noqa: ANN401 (as _verifier)
    models, rules = importlib.import_module("sigstore.models"), importlib.import_module("sigstore.verify.policy")
    wanted = rules.AllOf(
        [
            rules.OIDCIssuerV2(identity.issuer),
            rules.OIDCSourceRepositoryURI(identity.source_repository),
            rules.OIDCBuildSignerURI(identity.build_signer_uri),
        ]
    )
    try:
        bundle = models.Bundle.from_json(json.dumps(parse(envelope.bundle, ENVELOPE)))
        kind, payload = verifier.verify_dsse(bundle, wanted)
    except _faults():  # nothing of its text is authentic
        return False
    return bool(kind == PAYLOAD_TYPE and payload == envelope.payload)
