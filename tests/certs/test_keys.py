"""Key files are private, keys are strong, and a key id decides nothing."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pytest_frt.certs import keys
from pytest_frt.errors import CertificateRefused, UsageFault

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    """Add two points of the curve -x^2 + y^2 = 1 + d x^2 y^2."""
    cross = D * a[0] * b[0] * a[1] * b[1]
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + cross, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - cross, -1, P)
    return x % P, y % P


def times_eight(point: Point) -> Point:
    for _ in range(3):
        point = add(point, point)
    return point


def x_of(y: int) -> int:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    return root if root * root % P == square else root * pow(2, (P - 1) // 4, P) % P


def encodings(y: int) -> list[bytes]:
    return [(y + sign).to_bytes(32, "little") for sign in (0, 2**255)]


def test_the_small_order_table_is_the_whole_torsion_group() -> None:
    points = {(x, y) for y in keys._SMALL_ORDER_Y for x in (x_of(y), -x_of(y) % P)}
    assert all(times_eight(point) == (0, 1) for point in points)
    assert len(points) == 8


@pytest.mark.parametrize("raw", [raw for y in sorted(keys._SMALL_ORDER_Y) for raw in encodings(y)], ids=bytes.hex)
def test_weak_keys_are_refused(raw: bytes) -> None:
    with pytest.raises(CertificateRefused) as caught:
        keys.parse_public(keys.PREFIX + base64.b64encode(raw).decode())
    assert caught.value.refusal_code == "KEY_WEAK"


@pytest.mark.parametrize(
    "raw", [(P + 3).to_bytes(32, "little"), b"\xff" * 32, b"\x05" * 31, b"\x05" * 33], ids=["y>=p", "max", "31", "33"]
)
def test_keys_that_are_not_canonical_are_refused(raw: bytes) -> None:
    with pytest.raises(CertificateRefused, match="strong Ed25519"):
        keys.PublicKey(raw)


@pytest.mark.parametrize("text", ["", "rsa:AAAA", "ed25519:", "ed25519:AA AA", "ed25519:éé", "AAAA"], ids=repr)
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(CertificateRefused):
        keys.parse_public(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (keys.generate().pem(None).decode(), "name the .pub file"),
        (keys.generate().pem(b"sesame").decode(), "name the .pub file"),
        ("c2VjcmV0c2VjcmV0", "does not start with"),
        ("ed25519:c2VjcmV0c2VjcmV0=", "canonical"),
    ],
    ids=["key", "locked_key", "secret", "no_base64"],
)
def test_nothing_of_what_is_no_public_key_is_shown(text: str, said: str) -> None:
    with pytest.raises(CertificateRefused) as caught:
        keys.parse_public(text)
    told = caught.value.diagnostics()
    assert said in told
    assert [line for line in text.splitlines() if line[8:20] in told and len(line) > 20] == []
    assert "c2Vj" not in told


def test_public_key_where_a_private_one_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "key.pub"
    file.write_text(keys.generate().public.text)
    with pytest.raises(UsageFault, match="holds a public key") as caught:
        keys.load_private(file)
    assert "private key file" in caught.value.hint


def test_round_trip_through_text() -> None:
    public = keys.generate().public
    assert keys.parse_public(f" {public.text}\n") == public


def test_keyid_is_the_ssh_fingerprint(tmp_path: Path) -> None:
    public = keys.generate().public
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", public.raw))
    file = tmp_path / "key.pub"
    file.write_text(f"ssh-ed25519 {base64.b64encode(blob).decode()} x\n")
    try:
        shown = subprocess.run(["ssh-keygen", "-lf", file], capture_output=True, text=True, check=True).stdout  # noqa: S607
    except FileNotFoundError:
        pytest.skip("ssh-keygen is the oracle of this test and is not installed")
    assert shown.split()[1] == public.keyid


def test_key_file_round_trip_and_mode(tmp_path: Path) -> None:
    key, file = keys.generate(), tmp_path / "k.pem"
    keys.write_private(file, key)
    assert file.stat().st_mode & 0o777 == 0o600
    assert keys.load_private(file).public == key.public
    assert key.public.text not in repr(key)
    with pytest.raises(UsageFault, match="never overwritten"):
        keys.write_private(file, key)


@pytest.mark.parametrize(
    ("given", "ok"), [(b"open", True), (b"shut", False), (None, False)], ids=["right", "wrong", "none"]
)
def test_passphrase(tmp_path: Path, given: bytes | None, ok: bool) -> None:  # noqa: FBT001
    key, file = keys.generate(), tmp_path / "k.pem"
    keys.write_private(file, key, b"open")
    if ok:
        assert keys.load_private(file, given).public == key.public
    else:
        with pytest.raises(CertificateRefused) as caught:
            keys.load_private(file, given)
        assert caught.value.refusal_code == "KEY_PASSPHRASE"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644], ids=oct)
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "k.pem"
    keys.write_private(file, keys.generate())
    file.chmod(mode)
    with pytest.raises(CertificateRefused, match="open to others") as caught:
        keys.load_private(file)
    assert "chmod 600" in caught.value.diagnostics()


def test_a_linked_foreign_or_strange_key_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "k.pem", tmp_path / "link.pem"
    keys.write_private(file, keys.generate())
    link.symlink_to(file)
    with pytest.raises(CertificateRefused, match="symbolic link"):
        keys.load_private(link)
    with pytest.raises(UsageFault, match="cannot be read"):
        keys.load_private(tmp_path / "absent.pem")
    other = tmp_path / "ec.pem"
    ec = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    other.write_bytes(ec)
    other.chmod(0o600)
    with pytest.raises(CertificateRefused, match="not an Ed25519 key"):
        keys.load_private(other)
    monkeypatch.setattr("os.geteuid", lambda: 4242)
    with pytest.raises(CertificateRefused, match="belongs to uid"):
        keys.load_private(file)
