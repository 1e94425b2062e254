"""Envelopes that are nearly right: another payload type, no signature, a key id of another key, base64 of no encoder.

What is signed holds our payload type whatever the envelope says, so its form is all that tells another type.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import dsse
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World


def code(world: World, **members: Any) -> str:
    """Return the refusal code of the world's envelope with other members."""
    document = json.loads(world.line()) | members
    try:
        dsse.parse_envelope(json.dumps(document).encode())
    except CertificateRefused as refusal:
        return refusal.refusal_code
    return ""


KINDS = [None, "", "text/plain", f"{dsse.PAYLOAD_TYPE} ", dsse.PAYLOAD_TYPE.upper(), [dsse.PAYLOAD_TYPE]]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_other_payload_type(world: World, kind: object) -> None:
    assert code(world, payloadType=kind) == "PAYLOAD_TYPE"


def test_an_envelope_without_a_signature(world: World) -> None:
    assert code(world, signatures=[]) == "SIG_COUNT"


@pytest.mark.parametrize("keyid", [None, 7, True, ["a"], {}], ids=repr)
def test_key_id_that_is_no_text(world: World, keyid: object) -> None:
    signature = json.loads(world.line())["signatures"][0]
    assert code(world, signatures=[signature | {"keyid": keyid}]) == "ENVELOPE"


@pytest.mark.parametrize("signature", ["QQ==", 7, None, ["QQ=="]], ids=repr)
def test_signature_that_is_no_object(world: World, signature: object) -> None:
    assert code(world, signatures=[signature]) == "ENVELOPE"


@pytest.mark.parametrize("text", ["QQ==", "QUE=", "QUFB", "AA_A", "AA-A", "A-_A", "AA/A", "AA+A"])
def test_base64_as_an_encoder_writes_it(world: World, text: str) -> None:
    assert code(world, payload=text) == ""


@pytest.mark.parametrize("text", ["QR==", "QUF=", "QQ=", "QQ", "QQ==\n", " QQ==", "QQ==QQ==", "Q-=="])
def test_base64_as_no_encoder_writes_it(world: World, text: str) -> None:
    assert code(world, payload=text) == "B64"


@pytest.mark.parametrize(
    ("hint", "counts"), [("", True), ("own", True), ("other", False), ("stranger", False)], ids=str
)
def test_a_key_id_that_is_given_must_be_that_of_the_key(world: World, hint: str, *, counts: bool) -> None:
    payload, publics = world.payload(), (world.alice.public, world.bob.public)
    keyid = {"own": world.alice.public.keyid, "other": world.bob.public.keyid}.get(hint, hint)
    signature = dsse.Signature(keyid, world.alice.sign(dsse.pae(payload)))
    found = dsse.signers(dsse.Envelope(payload, (signature,)), publics)
    assert found == (frozenset({world.alice.public}) if counts else frozenset())


def test_a_signature_is_over_type_and_payload_with_their_lengths() -> None:
    assert dsse.pae(b"\xff\n") == b"DSSEv1 28 application/vnd.in-toto+json 2 \xff\n"
    assert dsse.pae("é".encode(), "ü") == b"DSSEv1 2 \xc3\xbc 2 \xc3\xa9"
    sealed = dsse.sealed(b"A", dsse.Signature("me", b"B"))
    assert sealed["signatures"] == [{"keyid": "me", "sig": base64.b64encode(b"B").decode()}]
