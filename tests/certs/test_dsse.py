"""Envelopes and sets at their limits: sixteen signatures, 16 MiB, 2,048 lines, and members in another case."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs.dsse import BUNDLE_TYPE, parse_envelope, split_set
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World

MIB = 1024 * 1024


def code(line: bytes) -> str:
    with pytest.raises(CertificateRefused) as caught:
        parse_envelope(line)
    return caught.value.refusal_code


def document(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.line())
    return found


def test_sixteen_signatures_and_no_more(world: World) -> None:
    one = document(world)
    signature = one["signatures"][0]
    assert len(parse_envelope(json.dumps(one | {"signatures": [signature] * 16}).encode()).signatures) == 16
    assert code(json.dumps(one | {"signatures": [signature] * 17}).encode()) == "SIG_COUNT"


@pytest.mark.parametrize("found", [None, 7, "two", {"sig": "QQ=="}], ids=["null", "number", "text", "object"])
def test_signatures_that_are_no_array(world: World, found: object) -> None:
    assert code(json.dumps(document(world) | {"signatures": found}).encode()) == "SIG_COUNT"


@pytest.mark.parametrize("member", ["payload", "payloadType", "signatures"])
def test_member_in_another_case(world: World, member: str) -> None:
    one = document(world)
    one[member.upper()] = one.pop(member)
    assert code(json.dumps(one).encode()) == "ENVELOPE"


def test_set_of_16_mib_and_no_more() -> None:
    line = b"x" * (MIB - 1) + b"\n"
    assert len(split_set(line * 16)) == 16
    with pytest.raises(CertificateRefused, match="over 16777216 or 2048") as caught:
        split_set(line * 16 + b"x")
    assert caught.value.refusal_code == "SET_SIZE"


def test_set_of_2048_lines_and_no_more() -> None:
    assert len(split_set(b"x\n" * 2048)) == 2048
    with pytest.raises(CertificateRefused, match="in 2049 lines") as caught:
        split_set(b"x\n" * 2049)
    assert caught.value.refusal_code == "SET_SIZE"


@pytest.mark.parametrize(
    ("material", "kept"),
    [({"certificate": {}}, True), ({"publicKey": {}}, False), (None, False), (["certificate"], False)],
    ids=["certificate", "key", "none", "array"],
)
def test_only_a_bundle_with_a_certificate_keeps_its_line(world: World, material: object, *, kept: bool) -> None:
    whole = {"mediaType": BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": document(world)}
    line = json.dumps(whole).encode()
    assert parse_envelope(line).bundle == (line if kept else b"")


@pytest.mark.parametrize(
    ("text", "data"),
    [("____", b"\xff\xff\xff"), ("----", b"\xfb\xef\xbe"), ("////", b"\xff\xff\xff"), ("++++", b"\xfb\xef\xbe")],
)
def test_either_alphabet_alone(world: World, text: str, data: bytes) -> None:
    assert parse_envelope(json.dumps(document(world) | {"payload": text}).encode()).payload == data


@pytest.mark.parametrize("payload", ["+_AA", "/_AA", "-+AA", "-/AA", 7, None, ["QQ=="], ""])
def test_what_is_no_base64(world: World, payload: object) -> None:
    assert code(json.dumps(document(world) | {"payload": payload}).encode()) == "B64"
