"""Published refusal vectors: one spoiled thing each, refused with exactly the stated code."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pytest_frt.certs import dsse, index, keys, verify
from tests.certs.sample import key_table

if TYPE_CHECKING:
    from tests.certs.conftest import World

Lines = Callable[["World"], list[bytes]]
ORDER = 2**252 + 27742317777372353535851937790883648493


@dataclass(frozen=True)
class Vector:
    name: str
    code: str
    lines: Lines
    changes: tuple[tuple[str, str], ...] = ()
    now: datetime | None = None


def plain(world: World) -> list[bytes]:
    return [world.line()]


def envelope(spoil: Callable[[dict[str, Any]], object]) -> Lines:
    def build(world: World) -> list[bytes]:
        document = json.loads(world.line())
        spoil(document)
        return [json.dumps(document).encode()]

    return build


def predicate(spoil: Callable[[dict[str, Any]], object]) -> Lines:
    return lambda world: [world.line(world.spoiled(lambda statement: spoil(statement["predicate"])))]


def whole(spoil: Callable[[dict[str, Any]], object]) -> Lines:
    return lambda world: [world.line(world.spoiled(spoil))]


def text(old: str, new: str) -> Lines:
    def build(world: World) -> list[bytes]:
        payload = world.payload().decode()
        assert old in payload
        return [world.line(payload.replace(old, new, 1).encode())]

    return build


def gate(name: str, **changes: object) -> Lines:
    def spoil(members: dict[str, Any]) -> None:
        next(row for row in members["gates"] if row["name"] == name).update(changes)

    return predicate(spoil)


def flip_bit(document: dict[str, Any]) -> None:
    payload = bytearray(base64.b64decode(document["payload"]))
    payload[100] ^= 1
    document["payload"] = base64.b64encode(payload).decode()


def resign(message: Callable[[bytes], bytes]) -> Lines:
    def build(world: World) -> list[bytes]:
        document = json.loads(world.line())
        signature = world.alice.sign(message(base64.b64decode(document["payload"])))
        document["signatures"][0]["sig"] = base64.b64encode(signature).decode()
        return [json.dumps(document).encode()]

    return build


def stranger(world: World, keyid: str | None = None) -> list[bytes]:
    document = json.loads(world.line(key=keys.generate()))
    if keyid is not None:
        document["signatures"][0]["keyid"] = keyid
    return [json.dumps(document).encode()]


def malleate(document: dict[str, Any]) -> None:
    raw = base64.b64decode(document["signatures"][0]["sig"])
    scalar = int.from_bytes(raw[32:], "little") + ORDER
    document["signatures"][0]["sig"] = base64.b64encode(raw[:32] + scalar.to_bytes(32, "little")).decode()


def trailing_bits(document: dict[str, Any]) -> None:
    sig = document["signatures"][0]["sig"]
    assert sig.endswith("==")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    document["signatures"][0]["sig"] = sig[:-3] + alphabet[alphabet.index(sig[-3]) + 1] + "=="


def change(**changes: object) -> Lines:
    return predicate(lambda members: members.update(changes))


def change_envelope(**changes: object) -> Lines:
    return envelope(lambda document: document.update(changes))


def extra_gate(members: dict[str, Any]) -> None:
    members["gates"].append(members["gates"][0] | {"name": "own.gate", "op": ">=", "floor": "1", "statistic": "min"})


def keyid_of_bob(world: World) -> list[bytes]:
    keyid = world.bob.public.keyid
    return envelope(lambda document: document["signatures"][0].update(keyid=keyid))(world)


ALICE_KEY = 'until = "2027-06-01T00:00:00Z"\nstatus = "active"'
TWO_OWNERS = ('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "bob"]\nthreshold = 2')
CAROL = key_table("carol", keys.generate().public) + "[[rule]]"
ALICE_AND_CAROL = (
    ('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "carol"]\nthreshold = 2'),
    ('owner = "bob"', 'owner = "alice"'),
    ("[[rule]]", CAROL),
)
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
OTHER_TYPE = "https://in-toto.io/attestation/test-result/v0.1"
DENY_COMMIT = ("deny = []", f'deny = [{{ repo = "acme/frt-cpu", revision = "{"a" * 40}", reason = "bad" }}]')
RETIRED = 'until = "2026-11-01T00:00:00Z"\nstatus = "retired"'
VECTORS = [
    Vector("E1 payload bit", "SIG_NONE", envelope(flip_bit)),
    Vector("E2 payloadType application/json", "PAYLOAD_TYPE", change_envelope(payloadType="application/json")),
    Vector("E3 payloadType case", "PAYLOAD_TYPE", change_envelope(payloadType=dsse.PAYLOAD_TYPE.upper())),
    Vector("E4 no signatures", "SIG_COUNT", change_envelope(signatures=[])),
    Vector("E4b 17 signatures", "SIG_COUNT", envelope(lambda d: d.update(signatures=d["signatures"] * 17))),
    Vector("E5 unknown key", "SIG_NONE", stranger),
    Vector("E6 unknown key under a trusted keyid", "SIG_NONE", lambda w: stranger(w, w.alice.public.keyid)),
    Vector("E7 alice's signature under bob's keyid", "SIG_NONE", keyid_of_bob),
    Vector("E8 signed without PAE", "SIG_NONE", resign(lambda payload: payload)),
    Vector("E9 PAE of another payloadType", "SIG_NONE", resign(lambda payload: dsse.pae(payload, "application/json"))),
    Vector("E10 malleated S+L", "SIG_NONE", envelope(malleate)),
    Vector("E11 trailing bits", "B64", envelope(trailing_bits)),
    Vector("E12 blank inside", "B64", envelope(lambda d: d.update(payload=d["payload"][:8] + " " + d["payload"][8:]))),
    Vector("E12b empty payload", "B64", change_envelope(payload="")),
    Vector("E13 payload twice", "JSON_DUPKEY", lambda w: [w.line().replace(b"{", b'{"payload":"QQ==",', 1)]),
    Vector("E13b payload and Payload", "JSON_DUPKEY", lambda w: [w.line().replace(b"{", b'{"Payload":"QQ==",', 1)]),
    Vector("E13c only a case twin", "ENVELOPE", envelope(lambda d: d.update(PAYLOAD=d.pop("payload")))),
    Vector("E14 byte order mark", "JSON_BOM", lambda w: [b"\xef\xbb\xbf" + w.line()]),
    Vector("no object", "ENVELOPE", lambda _: [b"[]"]),
    Vector("keyid is a number", "ENVELOPE", envelope(lambda d: d["signatures"][0].update(keyid=7))),
    Vector("S1 result twice", "JSON_DUPKEY", text('"result":"PASSED"', '"result":"FAILED","result":"PASSED"')),
    Vector("S1b result and Result", "JSON_DUPKEY", text('"result":"PASSED"', '"Result":"FAILED","result":"PASSED"')),
    Vector("S2 NaN", "JSON_FLOAT", text('"measured":"0.6"', '"measured":NaN')),
    Vector("S3 -Infinity under <=", "JSON_FLOAT", text('"measured":"0.6"', '"measured":-Infinity')),
    Vector("S4 1e400", "JSON_FLOAT", text('"measured":"0.6"', '"measured":1e400')),
    Vector("S5 'NaN'", "DECIMAL", text('"measured":"0.6"', '"measured":"NaN"')),
    Vector("S6 'Infinity'", "DECIMAL", text('"measured":"0.6"', '"measured":"Infinity"')),
    Vector("S6b NaN among samples", "DECIMAL", text('"samples":["0.51",', '"samples":["NaN",')),
    Vector("S6c full-width digits", "DECIMAL", text('"measured":"0.6"', '"measured":"\uff10.6"')),
    Vector("S7 Statement/v0.1", "STATEMENT_TYPE", whole(lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"))),
    Vector("S8 test-result", "PREDICATE_TYPE", whole(lambda s: s.update(predicateType=OTHER_TYPE))),
    Vector("S9 unknown crit", "CRIT", change(crit=["moonPhase"], moonPhase="full")),
    Vector("S9b crit absent", "CRIT", predicate(lambda p: p.pop("crit"))),
    Vector("S9c crit names an absent member", "CRIT", change(crit=["dropped"])),
    Vector("K1 one signature twice", "THRESHOLD", envelope(
        lambda d: d.update(signatures=d["signatures"] * 2)), (TWO_OWNERS,)),
    Vector("K1b one signer on two lines", "THRESHOLD", lambda w: [w.line(), w.line()], (TWO_OWNERS,)),
    Vector("K2 two keys of one owner", "THRESHOLD", lambda w: [w.line(), w.line(key=w.bob)], ALICE_AND_CAROL),
    Vector("K4 revoked", "SIG_REVOKED", plain, ((ALICE_KEY, ALICE_KEY.replace("active", "revoked")),)),
    Vector("K5 key expired", "SIG_REVOKED", plain, ((ALICE_KEY, ALICE_KEY.replace("2027-06", "2026-11")),)),
    Vector("K5b key not yet valid", "SIG_REVOKED", plain, (('from = "2026-01', 'from = "2027-01'),)),
    Vector("K6 issued before the key's window", "KEY_WINDOW",
           change(issuedAt="2025-12-31T00:00:00Z", expiresAt="2026-12-31T00:00:00Z")),
    Vector("K6b issued after a key retired", "KEY_WINDOW", plain, ((ALICE_KEY, RETIRED),)),
    Vector("K7 structure outside the rule", "NO_RULE", plain, (("decoder_ffn@1", "linear_proj@1"),)),
    Vector("K7b kernel prefix without a segment", "NO_RULE", plain, (('"acme/*"', '"acme/frt"'),)),
    Vector("K7 host outside the rule", "NO_RULE", plain, (('hosts = ["toy"]', 'hosts = ["other"]'),)),
    Vector("K7 device outside the rule", "NO_RULE", plain, (('devices = ["cpu"]', 'devices = ["h200"]'),)),
    Vector("K7 scheme outside the rule", "NO_RULE", plain, (('schemes = ["w16a32"]', "schemes = []"),)),
    Vector("K7c another issuer", "NO_RULE", change(issuer="acme2")),
    Vector("K8 policy expired", "POLICY_EXPIRED", plain, (('expires = "2027-03', 'expires = "2026-11'),)),
    Vector("K10 signer not in the rule", "THRESHOLD", lambda w: [w.line(key=w.bob)]),
    Vector("T1 expired", "EXPIRED", change(expiresAt="2026-11-30T23:59:59Z")),
    Vector("T2 issued in 5 days", "NOT_YET", change(issuedAt="2026-12-06T00:00:00Z")),
    Vector("T3 ten years", "LIFETIME", change(expiresAt="2036-11-29T00:00:00Z")),
    Vector("T3b ends before it starts", "LIFETIME",
           change(issuedAt="2026-12-01T00:04:00Z", expiresAt="2026-12-01T00:03:00Z")),
    Vector("T4 +00:00", "TIME_FORMAT", change(issuedAt="2026-11-29T00:00:00+00:00")),
    Vector("T5 30 February", "TIME_FORMAT", change(expiresAt="2027-02-30T00:00:00Z")),
    Vector("T6 clock at 1970", "EXPIRED", change(issuedAt="2026-01-02T00:00:00Z", expiresAt="2026-11-19T00:00:00Z"),
           now=datetime(1970, 1, 1, tzinfo=UTC)),
    Vector("G1 FAILED", "RESULT", change(result="FAILED")),
    Vector("G2 mandatory gate absent", "GATE_MISSING", predicate(lambda p: p["gates"].pop(0))),
    Vector("G3 gate twice", "GATE_DUP", predicate(lambda p: p["gates"].append(p["gates"][0]))),
    Vector("G4 below its floor", "GATE_FAIL", gate("parity.host.cosine", measured="0.9", samples=["0.9"] * 13)),
    Vector("G4b floor looser than the rule's", "GATE_FLOOR", plain, (('value = "0.999"', 'value = "0.9999"'),)),
    Vector("G4c floor looser than the policy's", "GATE_FLOOR", plain, (('value = "0.1"', 'value = "0.001"'),)),
    Vector("G5 n=1", "GATE_SAMPLES", gate("parity.host.cosine", n=1, samples=["0.9995"])),
    Vector("G6 extra failing gate", "GATE_FAIL", predicate(extra_gate)),
    Vector("B4 torch not stated", "SOFTWARE_MISSING", predicate(lambda p: p["software"].pop("torch"))),
    Vector("device name not stated", "DEVICE_MISSING", predicate(lambda p: p["device"].update(name=""))),
    Vector("transformers not stated", "HOST_MISSING", predicate(lambda p: p["host"]["library"].pop("transformers"))),
    Vector("B8 binding config", "WEIGHTS_BINDING", predicate(lambda p: p["weights"].update(binding="config"))),
    Vector("B9 denied revision", "DENIED", plain, (DENY_COMMIT,)),
    Vector("F11 md5 only", "DIGEST", whole(lambda s: s["subject"][0].update(digest={"md5": "a" * 32}))),
    Vector("F11b empty file as subject", "DIGEST", whole(lambda s: s["subject"][0]["digest"].update(sha256=EMPTY))),
    Vector("no impl among the subjects", "ROLE_FILE", whole(lambda s: s["subject"].pop(1))),
    Vector("subject of no known role", "ROLE_FILE", whole(lambda s: s["subject"][0].update(name="extra/x.py"))),
    Vector("subject name twice", "SCHEMA", whole(lambda s: s["subject"].append(s["subject"][0]))),
    Vector("branch as revision", "SCHEMA", predicate(lambda p: p["kernel"].update(revision="main"))),
    Vector("two seats at one place", "SCHEMA", predicate(lambda p: p["seats"].append(p["seats"][0]))),
    Vector("no seat", "SCHEMA", change(seats=[])),
    Vector("host of another cell", "SCHEMA", predicate(lambda p: p["cell"].update(host="other"))),
    Vector("random weights", "SYNTHETIC", predicate(lambda p: p["host"].update(weights="random"))),
]  # fmt: skip
NAMES = [
    "../../etc/passwd", "/etc/passwd", "kernel/../x.so", "kernel//x", "kernel/a\\b", "kernel/C:x", "kernel/aux.py",
    "kernel/x.", "kernel/.hidden", "kernel/xé.py", "kernel/" + "x" * 300, "kernel/" + "x/" * 20 + "y", "",
]  # fmt: skip
VECTORS += [
    Vector(f"F10.{i} {name[:20]}", "NAME", whole(lambda s, name=name: s["subject"][0].update(name=name)))
    for i, name in enumerate(NAMES)
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_vector(world: World, vector: Vector) -> None:
    world.now = vector.now or world.now
    outcomes = world.verify(*vector.lines(world), changes=vector.changes)
    assert [type(outcome) for outcome in outcomes] == [verify.Refused]
    assert [outcome.code for outcome in outcomes] == [vector.code], outcomes


def test_k4_denied_key(world: World) -> None:
    deny = (("deny = []", f'deny = [{{ key = "{world.alice.public.text}", reason = "lost" }}]'),)
    (outcome,) = world.verify(world.line(), changes=deny)
    assert outcome.code == "SIG_REVOKED"


def test_a_retired_key_keeps_what_it_signed(world: World) -> None:
    retired = ((ALICE_KEY, RETIRED.replace("2026-11-01", "2026-11-30")),)
    (outcome,) = world.verify(world.line(), changes=retired)
    assert isinstance(outcome, verify.Accepted)


def test_b10_denied_payload(world: World) -> None:
    name = hashlib.sha256(world.payload()).hexdigest()
    deny = (("deny = []", f'deny = [{{ payload = "{name}", reason = "out-of-bounds read" }}]'),)
    (outcome,) = world.verify(world.line(), changes=deny)
    assert (outcome.code, "out-of-bounds read" in outcome.message) == ("DENIED", True)


def test_an_unverified_line_shows_no_text_of_its_own(world: World) -> None:
    evil = b"\x1b[31mACCEPTED"
    document = json.loads(world.line(key=keys.generate()))
    document["payloadType"] = evil.decode()
    outcomes = world.verify(json.dumps(document).encode(), evil, *stranger(world))
    assert len(outcomes) == 3
    for outcome in outcomes:
        assert "ACCEPTED" not in f"{outcome.message}{outcome.title}"
        assert outcome.title == ""


def test_the_payload_is_not_parsed_before_its_signature_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(_: bytes) -> None:
        raise AssertionError("parsed an unsigned payload")

    monkeypatch.setattr(index, "open_statement", explode)
    (outcome,) = world.verify(*stranger(world))
    assert outcome.code == "SIG_NONE"
    with pytest.raises(AssertionError, match="parsed"):
        world.verify(world.line())


def test_min_time_lifts_a_clock_and_not_an_audit(world: World) -> None:
    long_ago = world.line(world.spoiled(lambda s: s["predicate"].update(
        issuedAt="2026-02-01T00:00:00Z", expiresAt="2026-03-01T00:00:00Z")))  # fmt: skip
    policy, at = world.policy(), datetime(2026, 2, 15, tzinfo=UTC)
    assert verify.verify_set([long_ago], policy, at)[0].code == "EXPIRED"
    assert isinstance(verify.verify_set([long_ago], policy, at, audit=True)[0], verify.Accepted)
