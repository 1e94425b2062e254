"""Keys at the edges: encodings beside the prime, signatures of another length, key files at their cap."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_frt.certs import keys
from pytest_frt.errors import CertificateRefused

P = 2**255 - 19
CAP = 16 * 1024
MESSAGE = b"what was signed"
STRONG = keys.generate()


@pytest.mark.parametrize("y", [P - 1, P, P + 1], ids=["order_two", "zero_anew", "identity_anew"])
@pytest.mark.parametrize("sign", [0, 2**255], ids=["even", "odd"])
def test_encodings_beside_the_prime_are_weak(y: int, sign: int) -> None:
    with pytest.raises(CertificateRefused) as caught:
        keys.PublicKey((y + sign).to_bytes(32, "little"))
    assert caught.value.refusal_code == "KEY_WEAK"


SIGNATURES = {
    "its own": (STRONG.sign(MESSAGE), True),
    "of another message": (STRONG.sign(b"other"), False),
    "of another key": (keys.generate().sign(MESSAGE), False),
    "none": (b"", False),
    "a byte short": (STRONG.sign(MESSAGE)[:-1], False),
    "a byte long": (STRONG.sign(MESSAGE) + b"\0", False),
}


@pytest.mark.parametrize(("signature", "want"), SIGNATURES.values(), ids=SIGNATURES)
def test_a_signature_is_of_this_key_over_this_message(signature: bytes, want: bool) -> None:  # noqa: FBT001
    assert STRONG.public.verifies(signature, MESSAGE) is want


def key_file(folder: Path, data: bytes) -> Path:
    file = folder / "k.pem"
    file.write_bytes(data)
    file.chmod(0o600)
    return file


def padded(size: int) -> bytes:
    return STRONG.pem(None).ljust(size, b"\n")


def test_key_file_at_its_cap_is_read(tmp_path: Path) -> None:
    assert keys.load_private(key_file(tmp_path, padded(CAP))).public == STRONG.public


UNUSABLE = {
    "over its cap": (padded(CAP + 1), None, "KEY_FILE"),
    "no key": (b"nothing", None, "KEY_FILE"),
    "no key under a passphrase": (b"nothing", b"sesame", "KEY_PASSPHRASE"),
    "a passphrase for an open key": (STRONG.pem(None), b"sesame", "KEY_PASSPHRASE"),
}


@pytest.mark.parametrize(("data", "passphrase", "code"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_file_that_does_not_open_has_a_code(
    tmp_path: Path, data: bytes, passphrase: bytes | None, code: str
) -> None:
    with pytest.raises(CertificateRefused) as caught:
        keys.load_private(key_file(tmp_path, data), passphrase)
    assert caught.value.refusal_code == code
