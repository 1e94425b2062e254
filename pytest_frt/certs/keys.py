"""Ed25519 keys: files, text form, fingerprints, and the refusal of keys that verify what nobody signed.

A private key is a PKCS#8 PEM file of mode 0600 that only its owner holds; it is used for certificates and nothing else.
A public key is the text ``ed25519:<base64 of 32 bytes>``. Its identity is those 32 bytes. The ``keyid`` (the OpenSSH
fingerprint) is a hint that saves signature checks; nothing is decided by it.

The library accepts the identity point as a public key, under which one fixed signature verifies for *every* message.
Keys of small order and encodings that are not canonical are therefore refused wherever a key enters.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from pytest_frt.certs.files import PRIVATE, PUBLIC, read_owned, read_some, write_new
from pytest_frt.errors import CertificateRefused, UsageFault

PREFIX: Final = PUBLIC.decode()
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
_KEY_FILE_CAP: Final = 16 * 1024
_SIGN_BIT: Final = 2**255
_PRIME: Final = 2**255 - 19
# The y coordinates of the eight points whose order divides 8, the curve's cofactor.
_SMALL_ORDER_Y: Final = frozenset({
    0,
    1,
    _PRIME - 1,
    0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
})  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class PublicKey:
    """A checked public key.

    Attributes:
        raw: The 32 bytes that are its identity.
    """

    raw: bytes

    def __post_init__(self) -> None:
        """Refuse keys that are not one canonical point of large order.

        Raises:
            CertificateRefused: ``KEY_WEAK``.
        """
        y = int.from_bytes(self.raw, "little") % _SIGN_BIT
        if len(self.raw) != KEY_BYTES or y >= _PRIME or y in _SMALL_ORDER_Y:
            raise CertificateRefused("KEY_WEAK", f"public key {self.raw.hex()} is not 32 bytes of a strong Ed25519 key")

    @property
    def text(self) -> str:
        """``ed25519:<base64>``, as the trust policy takes it."""
        return PREFIX + base64.b64encode(self.raw).decode()

    @property
    def keyid(self) -> str:
        """The fingerprint that ``ssh-keygen -l`` shows: ``SHA256:<base64 without padding>``."""
        return _fingerprint(self.raw)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether ``signature`` (64 bytes) is this key's over ``message``."""
        if len(signature) != SIGNATURE_BYTES:
            return False
        try:
            _loaded(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key that is only ever asked to sign; it has no text form and does not show in messages."""

    _private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"SigningKey({self.public.keyid})"

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return PublicKey(self._private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte signature of ``message``."""
        return self._private.sign(message)

    def pem(self, passphrase: bytes | None) -> bytes:
        """Return the PKCS#8 PEM text, encrypted when a passphrase is given."""
        lock: KeySerializationEncryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def generate() -> SigningKey:
    """Return a fresh key."""
    return SigningKey(Ed25519PrivateKey.generate())


def parse_public(text: str) -> PublicKey:
    """Return the key of ``ed25519:<base64>``; blanks around it are ignored, since it is pasted by people.

    Raises:
        CertificateRefused: ``KEY_FORMAT`` for other text, ``KEY_WEAK`` for a weak key.
    """
    kind, colon, body = text.strip().partition(":")
    if kind + colon != PREFIX:
        # What was given may be a secret, e.g. the other file of the pair: nothing of it is shown.
        if PRIVATE.decode() in text:
            raise CertificateRefused("KEY_FORMAT", "this is a private key, not a public one", hint="name the .pub file")
        raise CertificateRefused("KEY_FORMAT", f"public key of {len(text)} characters does not start with {PREFIX}")
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if base64.b64encode(raw).decode() != body:
        raise CertificateRefused(
            "KEY_FORMAT", f"public key of {len(text)} characters is not canonical base64 after {PREFIX}"
        )
    return PublicKey(raw)


def write_private(path: Path, key: SigningKey, passphrase: bytes | None = None) -> None:
    """Create the key file with mode 0600.

    Raises:
        UsageFault: the file exists.
        StorageFault: it cannot be written.
    """
    write_new(path, key.pem(passphrase), mode=0o600)


def load_private(path: Path, passphrase: bytes | None = None) -> SigningKey:
    """Return the key of a PKCS#8 PEM file.

    Raises:
        CertificateRefused: ``KEY_FILE`` (symlink, foreign owner, mode open to others, not an Ed25519 key),
            ``KEY_PASSPHRASE`` (missing or wrong).
        UsageFault: the file is missing, or holds a public key.
    """
    if _holds_public(path):
        raise UsageFault(f"{path} holds a public key", hint="name the private key file, e.g. frt-key.pem")
    pem = read_owned(path, code="KEY_FILE", cap=_KEY_FILE_CAP, secret=True)
    try:
        private = load_pem_private_key(pem, passphrase)
    except TypeError as error:  # how the library says that a passphrase is missing or not wanted
        raise CertificateRefused("KEY_PASSPHRASE", f"{path}: {error}", hint="see --passphrase-file") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        code = "KEY_PASSPHRASE" if passphrase else "KEY_FILE"
        raise CertificateRefused(code, f"{path} holds no key that opens this way") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise CertificateRefused("KEY_FILE", f"{path} holds a {type(private).__name__}, not an Ed25519 key")
    return SigningKey(private)


def _holds_public(path: Path) -> bool:
    try:
        return read_some(path, len(PUBLIC)) == PUBLIC
    except UsageFault:  # what cannot be read here is refused with its own reason where it is opened to sign
        return False


@lru_cache(maxsize=256)
def _loaded(raw: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(raw)


@lru_cache(maxsize=256)
def _fingerprint(raw: bytes) -> str:
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", raw))
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).rstrip(b"=").decode()
