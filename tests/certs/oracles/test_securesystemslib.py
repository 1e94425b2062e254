"""The library of in-toto and TUF accepts our envelopes, under our key ids, and rejects tampered ones."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from pytest_frt.certs import dsse
from pytest_frt.certs.keys import PublicKey
from tests.certs.oracles.tampered import PAYLOAD, TAMPERED, honest, spoiled
from tests.certs.vectors import world


def key_of(public: PublicKey) -> SSlibKey:
    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(public.raw), keyid=public.keyid)


def verify(document: dict[str, Any], *keys: PublicKey, threshold: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = Envelope.from_dict(document).verify([key_of(key) for key in keys], threshold)
    return found


def test_our_envelope_is_accepted_under_our_key_id() -> None:
    assert list(verify(honest(), world.BOB.public, world.ALICE.public)) == [world.ALICE.public.keyid]
    assert Envelope.from_dict(honest()).payload == PAYLOAD


def test_the_library_encodes_what_we_sign() -> None:
    assert Envelope.from_dict(honest()).pae() == dsse.pae(PAYLOAD)


def test_two_signers_meet_its_threshold() -> None:
    both = world.envelope(PAYLOAD, (world.ALICE, world.BOB))
    assert len(verify(both, world.ALICE.public, world.BOB.public, threshold=2)) == 2


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_envelope_is_rejected(name: str) -> None:
    with pytest.raises(VerificationError):
        verify(spoiled(name), world.ALICE.public)


def test_another_key_is_rejected() -> None:
    with pytest.raises(VerificationError):
        verify(honest(), world.BOB.public)


def test_we_accept_what_the_library_signs() -> None:
    from securesystemslib.signer import CryptoSigner

    signer = CryptoSigner(world.ALICE._private, key_of(world.ALICE.public))
    envelope = Envelope(PAYLOAD, dsse.PAYLOAD_TYPE, {})
    envelope.sign(signer)
    line = world.dumped(envelope.to_dict())
    assert dsse.signers(dsse.parse_envelope(line), [world.ALICE.public]) == {world.ALICE.public}
