"""Vectors on form: what is accepted, envelopes and their signatures, signed documents that no honest signer writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_frt.certs import dsse
from pytest_frt.certs.keys import SigningKey
from tests.certs.vectors import make, world
from tests.certs.vectors.make import LINE, PAYLOAD, Members, enveloped, predicate, signed, stated, vector, written
from tests.certs.vectors.model import ACCEPT, Vector

ORDER: Final = 2**252 + 27742317777372353535851937790883648493
ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
EVIL: Final = "VERIFIED-BY-NOBODY"
_FIRST: Final = '"measured":"0.5"'
ALICE_OR_BOB: Final = world.policy(('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2'))


def accepted() -> Iterator[Vector]:
    """Yield group A."""
    yield vector("A1", "one signature by a trusted key", ACCEPT)
    yield vector(
        "A2",
        "two signers on two lines meet threshold 2",
        ACCEPT,
        LINE,
        world.line(PAYLOAD, world.BOB),
        policy=ALICE_OR_BOB,
    )
    yield vector(
        "A2b",
        "two signers in one envelope meet threshold 2",
        ACCEPT,
        world.line(PAYLOAD, world.ALICE, world.BOB),
        policy=ALICE_OR_BOB,
    )
    yield vector("A3", "inside a sigstore bundle v0.3", ACCEPT, make.bundle(LINE))
    yield vector("A4", "no keyid", ACCEPT, enveloped(lambda document: document["signatures"][0].pop("keyid")))
    yield vector("A5", "an unknown member that crit does not list", ACCEPT, stated(moonPhase="full"))
    yield vector("A5b", "an unknown member of the envelope", ACCEPT, enveloped(lambda document: document.update(x="y")))
    yield vector(
        "A6",
        "the same kernel bytes at a later commit",
        ACCEPT,
        predicate(lambda found: found["kernel"].update(revision="b" * 40)),
    )
    yield vector("A7", "base64 in the other alphabet", ACCEPT, enveloped(_other_alphabet))
    yield vector(
        "A8",
        "a signature of an unknown key beside a trusted one",
        ACCEPT,
        world.line(PAYLOAD, world.MALLORY, world.ALICE),
    )


def envelopes() -> Iterator[Vector]:
    """Yield group E up to its signatures."""
    yield vector("E1", "one bit of the payload", "SIG_NONE", enveloped(_flip_bit))
    yield vector(
        "E2",
        "payloadType application/json",
        "PAYLOAD_TYPE",
        enveloped(lambda document: document.update(payloadType=make.OTHER_TYPE)),
    )
    yield vector(
        "E3",
        "payloadType in another case",
        "PAYLOAD_TYPE",
        enveloped(lambda document: document.update(payloadType=document["payloadType"].upper())),
    )
    yield vector("E4", "no signature", "SIG_COUNT", enveloped(lambda document: document.update(signatures=[])))
    yield vector("E5", "signed by an unknown key", "SIG_NONE", world.line(PAYLOAD, world.MALLORY))
    yield vector(
        "E6",
        "an unknown key's signature under a trusted keyid",
        "SIG_NONE",
        enveloped(lambda document: document.update(signatures=_renamed(world.MALLORY, world.ALICE))),
    )
    yield vector(
        "E7",
        "alice's signature under bob's keyid",
        "SIG_NONE",
        enveloped(lambda document: document.update(signatures=_renamed(world.ALICE, world.BOB))),
    )
    yield vector("E8", "signed without the pre-authentication encoding", "SIG_NONE", make.resigned(PAYLOAD))
    yield vector("E9", "encoding of another payload type", "SIG_NONE", make.resigned(make.pae(make.OTHER_TYPE)))
    yield vector("E10", "malleated signature, S + L", "SIG_NONE", enveloped(_malleate))


def forms() -> Iterator[Vector]:
    """Yield the rest of group E, and group U: base64, JSON, and text that nobody signed."""
    yield vector("E11", "base64 with trailing bits", "B64", enveloped(_trailing_bits))
    yield vector(
        "E12",
        "base64 with a blank",
        "B64",
        enveloped(lambda document: document.update(payload=f"{document['payload'][:8]} {document['payload'][8:]}")),
    )
    yield vector("E12b", "empty payload", "B64", enveloped(lambda document: document.update(payload="")))
    yield vector(
        "E12c",
        "both base64 alphabets in one text",
        "B64",
        enveloped(lambda document: document["signatures"][0].update(sig="+-" + "A" * 84 + "==")),
    )
    yield vector("E13", "payload twice", "JSON_DUPKEY", LINE.replace(b"{", b'{"payload":"QQ==",', 1))
    yield vector("E13b", "payload and Payload", "JSON_DUPKEY", LINE.replace(b"{", b'{"Payload":"QQ==",', 1))
    yield vector(
        "E13c",
        "PAYLOAD alone",
        "ENVELOPE",
        enveloped(lambda document: document.update(PAYLOAD=document.pop("payload"))),
    )
    yield vector("E14", "byte order mark", "JSON_BOM", b"\xef\xbb\xbf" + LINE)
    yield vector("E15", "a line that is no object", "ENVELOPE", b"[]")
    yield vector(
        "E16",
        "a keyid that is a number",
        "ENVELOPE",
        enveloped(lambda document: document["signatures"][0].update(keyid=7)),
    )
    yield vector("E17", "UTF-16", "JSON_NUL", LINE.decode().encode("utf-16-le"))
    yield vector(
        "U1",
        "text of an unsigned envelope is shown to nobody",
        "PAYLOAD_TYPE",
        enveloped(lambda document: document.update(payloadType=EVIL)),
        hides=EVIL,
    )
    yield vector(
        "U2",
        "text of a payload that no trusted key signed is shown to nobody",
        "SIG_NONE",
        signed(lambda statement: statement["predicate"].update(issuer=EVIL), world.MALLORY),
        hides=EVIL,
    )
    yield vector("U3", "text of a line that is not JSON is shown to nobody", "JSON_SYNTAX", EVIL.encode(), hides=EVIL)


def statements() -> Iterator[Vector]:
    """Yield group S up to its numbers."""
    yield vector(
        "S1", "result twice", "JSON_DUPKEY", written('"result":"PASSED"', '"result":"FAILED","result":"PASSED"')
    )
    yield vector(
        "S1b", "result and Result", "JSON_DUPKEY", written('"result":"PASSED"', '"Result":"FAILED","result":"PASSED"')
    )
    for name, shows, text in (("S2", "NaN", "NaN"), ("S3", "-Infinity", "-Infinity"), ("S4", "1e400", "1e400")):
        yield vector(name, f"{shows} under a <= gate", "JSON_FLOAT", written(_FIRST, f'"measured":{text}'))
    yield vector("S4b", "a plain float", "JSON_FLOAT", written(_FIRST, '"measured":0.5'))
    yield vector("S4c", "an integer beyond 2**53 - 1", "JSON_INT", written('"serial":42', f'"serial":{2**53}'))
    yield vector("S4d", "an integer of 5,000 digits", "JSON_INT", written('"serial":42', f'"serial":{"9" * 5_000}'))
    yield vector("S4e", "minus zero", "JSON_INT", written('"serial":42', '"serial":-0'))
    yield vector("S5", "the text NaN", "DECIMAL", written(_FIRST, '"measured":"NaN"'))
    yield vector("S6", "the text Infinity", "DECIMAL", written(_FIRST, '"measured":"Infinity"'))
    yield vector("S6b", "full-width digits", "DECIMAL", written(_FIRST, '"measured":"\uff10.5"'))
    yield vector("S6c", "an exponent", "DECIMAL", written(_FIRST, '"measured":"5e-1"'))
    yield vector("S6d", "a leading zero", "DECIMAL", written(_FIRST, '"measured":"00.5"'))


def kinds() -> Iterator[Vector]:
    """Yield the rest of group S: types, crit, text and schema."""
    yield vector(
        "S7",
        "Statement/v0.1",
        "STATEMENT_TYPE",
        signed(lambda statement: statement.update(_type="https://in-toto.io/Statement/v0.1")),
    )
    yield vector(
        "S8",
        "predicateType test-result, same key",
        "PREDICATE_TYPE",
        signed(lambda statement: statement.update(predicateType="https://in-toto.io/attestation/test-result/v0.1")),
    )
    yield vector(
        "S9", "crit lists a restriction that nobody knows", "CRIT", stated(crit=["moonPhase"], moonPhase="full")
    )
    yield vector("S9b", "no crit", "CRIT", predicate(lambda found: found.pop("crit")))
    yield vector(
        "S10",
        "a right-to-left override in a name",
        "JSON_STRING",
        predicate(lambda found: found["device"].update(name="CPU \u202e X")),
    )
    yield vector("S11", "a lone surrogate", "JSON_STRING", written('"name":"Some CPU', '"name":"\\ud800 CPU'))
    yield vector(
        "S12", "a branch as revision", "SCHEMA", predicate(lambda found: found["kernel"].update(revision="main"))
    )
    yield vector(
        "S13", "two seats at one place", "SCHEMA", predicate(lambda found: found["seats"].append(found["seats"][0]))
    )


def _flip_bit(document: Members) -> None:
    document["payload"] = world.text64(PAYLOAD[:100] + bytes([PAYLOAD[100] ^ 1]) + PAYLOAD[101:])


def _other_alphabet(document: Members) -> None:
    swap = str.maketrans("+/", "-_")
    document["payload"] = document["payload"].translate(swap)
    document["signatures"][0]["sig"] = document["signatures"][0]["sig"].translate(swap)


def _renamed(signer: SigningKey, claimed: SigningKey) -> list[Members]:
    (signature,) = world.envelope(PAYLOAD, (signer,))["signatures"]
    return [signature | {"keyid": claimed.public.keyid}]


def _malleate(document: Members) -> None:
    raw = world.ALICE.sign(dsse.pae(PAYLOAD))
    scalar = int.from_bytes(raw[32:], "little") + ORDER
    document["signatures"][0]["sig"] = world.text64(raw[:32] + scalar.to_bytes(32, "little"))


def _trailing_bits(document: Members) -> None:
    text = document["signatures"][0]["sig"]  # 64 bytes end in "==", so four bits of the last letter are free
    document["signatures"][0]["sig"] = text[:-3] + ALPHABET[ALPHABET.index(text[-3]) + 1] + "=="
