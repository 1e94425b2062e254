"""Vectors on trust: keys and owners, the policy, deny lists, time, gates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from pytest_frt.certs.reading import parse_time
from tests.certs.vectors import world
from tests.certs.vectors.group_form import ALICE_OR_BOB
from tests.certs.vectors.make import LINE, PAYLOAD, Members, enveloped, gate, predicate, remembered, stated, vector
from tests.certs.vectors.model import ACCEPT, Vector
from tests.certs.vectors.world import policy

ALICE_KEY: Final = (
    f'public = "{world.ALICE.public.text}"\nfrom = "2026-01-01T00:00:00Z"\nuntil = "2027-06-01T00:00:00Z"'
)
CAROL: Final = f"""[[key]]
owner = "carol"
public = "{world.CAROL.public.text}"
from = "2026-01-01T00:00:00Z"
until = "2027-06-01T00:00:00Z"
status = "active"
[[rule]]"""
WEAK: Final = "ed25519:" + world.text64(b"\x01" + bytes(31))
COSINE: Final = "parity.host.cosine"


def keys() -> Iterator[Vector]:
    """Yield group K up to keys."""
    twice = enveloped(lambda document: document.update(signatures=document["signatures"] * 2))
    yield vector("K1", "one signature twice, threshold 2", "THRESHOLD", twice, policy=ALICE_OR_BOB)
    yield vector("K1b", "one signer on two lines, threshold 2", "THRESHOLD", LINE, LINE, policy=ALICE_OR_BOB)
    yield vector(
        "K2",
        "two keys of one owner, threshold 2",
        "THRESHOLD",
        LINE,
        world.line(PAYLOAD, world.BOB),
        policy=policy(
            ('signers = ["alice"]\nthreshold = 1', 'signers = ["alice", "carol"]\nthreshold = 2'),
            ('owner = "bob"', 'owner = "alice"'),
            ("[[rule]]", CAROL),
        ),
    )
    yield vector(
        "K3",
        "one key under two owners in the policy",
        "POLICY_DUPKEY",
        policy=policy((world.BOB.public.text, world.ALICE.public.text)),
    )
    yield vector(
        "K4",
        "the signer's key is revoked",
        "SIG_REVOKED",
        policy=policy((f'{ALICE_KEY}\nstatus = "active"', f'{ALICE_KEY}\nstatus = "revoked"')),
    )
    yield vector("K4b", "the signer's key is denied", "SIG_REVOKED", policy=_deny(f'key = "{world.ALICE.public.text}"'))
    yield vector(
        "K5",
        "the signer's key has expired",
        "SIG_REVOKED",
        policy=policy((ALICE_KEY, ALICE_KEY.replace("2027-06", "2026-11"))),
    )
    yield vector(
        "K5b",
        "the signer's key is not valid yet",
        "SIG_REVOKED",
        policy=policy((ALICE_KEY, ALICE_KEY.replace("2026-01-01", "2027-01-01"))),
    )
    yield vector(
        "K6",
        "issued before the key's window",
        "KEY_WINDOW",
        stated(issuedAt="2025-12-31T00:00:00Z", expiresAt="2026-12-31T00:00:00Z"),
    )
    yield vector("K6b", "issued after the key was retired", "KEY_WINDOW", policy=_retired("2026-11-01"))
    yield vector("K6c", "a retired key keeps what it signed", ACCEPT, policy=_retired("2026-11-30"))


def rules() -> Iterator[Vector]:
    """Yield the rest of group K: rules and the policy itself."""
    yield vector("K7", "structure outside the rule", "NO_RULE", policy=policy(("decoder_ffn@1", "linear_proj@1")))
    yield vector(
        "K7b", "a kernel pattern that ends inside a segment", "NO_RULE", policy=policy(('"acme/*"', '"acme/frt"'))
    )
    yield vector("K7c", "another issuer", "NO_RULE", stated(issuer="acme2"))
    for number, (old, new) in enumerate(
        (('hosts = ["toy"]', 'hosts = ["other"]'), ('["cpu"]', '["h200"]'), ('["w16a32"]', "[]"))
    ):
        yield vector(f"K7d{number}", f"the rule says {new}", "NO_RULE", policy=policy((old, new)))
    yield vector(
        "K8", "the policy has expired", "POLICY_EXPIRED", policy=policy(('expires = "2027-03', 'expires = "2026-11'))
    )
    yield vector("K9", "a lower policy version than was seen", "POLICY_ROLLBACK", state=remembered(policy_version=8))
    yield vector("K10", "a signer that the rule does not list", "THRESHOLD", world.line(PAYLOAD, world.BOB))


def policies() -> Iterator[Vector]:
    """Yield group P: policies that must not load."""
    yield vector("P1", "a weak key", "KEY_WEAK", policy=policy((world.BOB.public.text, WEAK)))
    yield vector("P2", "a misspelt member", "POLICY_SCHEMA", policy=policy(("threshold", "treshold")))
    yield vector("P3", "a float", "POLICY_SCHEMA", policy=policy(("skew_s = 300", "skew_s = nan")))
    yield vector("P4", "one member twice", "POLICY_SYNTAX", policy=policy(("skew_s = 300", "skew_s = 300\nskew_s = 3")))
    yield vector(
        "P5", "a signer without a key", "POLICY_SCHEMA", policy=policy(('signers = ["alice"]', 'signers = ["eve"]'))
    )
    yield vector("P6", "no rule", "POLICY_SCHEMA", policy=world.POLICY.partition("[[rule]]")[0])
    yield vector("P7", "another schema", "POLICY_SCHEMA", policy=policy(("frt-trust/1", "frt-trust/2")))
    yield vector("P8", "no key", "POLICY_SCHEMA", policy="key = []\n" + world.POLICY.partition("[[key]]")[0])
    yield vector("P9", "a wildcard inside a segment", "NAME", policy=policy(('"acme/*"', '"ac*"')))


def extremes() -> Iterator[Vector]:
    """Yield policies whose times would leave what a computer's calendar holds."""
    last = "9999-12-31T23:59:59Z"
    yield vector(
        "P10",
        "a policy for ever",
        "TIME_FORMAT",
        policy=policy(("2027-03-01T00:00:00Z", last), ("2026-11-20T00:00:00Z", last)),
    )
    yield vector("P11", "a skew over an hour", "POLICY_SCHEMA", policy=policy(("skew_s = 300", "skew_s = 3601")))
    yield vector("P12", "a longest life over ten years", "POLICY_SCHEMA", policy=policy(("= 400", "= 3651")))
    yield vector(
        "P13", "an integer of 5,000 digits", "POLICY_SYNTAX", policy=policy(("version = 7", f"version = {'7' * 5_000}"))
    )
    yield vector(
        "P14", "arrays nested 3,000 deep", "POLICY_SYNTAX", policy=policy(("deny = []", f"deny = {'[' * 3_000}"))
    )
    yield vector("P15", "a key of 1,000 parts", "POLICY_SYNTAX", policy=policy(("deny = []", f"{'a.' * 1_000}a = 1")))


def denied() -> Iterator[Vector]:
    """Yield B9, B10 and their kin."""
    name = hashlib.sha256(PAYLOAD).hexdigest()
    revision = "a" * 40
    yield vector("B9", "a denied commit", "DENIED", policy=_deny(f'repo = "acme/frt-cpu", revision = "{revision}"'))
    yield vector("B10", "a denied payload", "DENIED", policy=_deny(f'payload = "{name}"'))
    yield vector("B10b", "a denied kernel tree", "DENIED", policy=_deny(f'tree = "{world.RECORD.kernel.tree_digest}"'))
    plan = world.line(world.plan_payload(PAYLOAD))
    yield vector("B10c", "a plan with a denied member", "DENIED", plan, policy=_deny(f'payload = "{name}"'))


def plans() -> Iterator[Vector]:
    """Yield group M: what stands together."""
    only = policy(('composition = "cell"', 'composition = "plan"'))
    plan = world.line(world.plan_payload(PAYLOAD))
    yield vector("M1", "a loose cell where the policy composes by plan", ACCEPT, policy=only, activates=False)
    yield vector("M2", "a plan without its member", "PLAN_MEMBER", plan, policy=only)


def times() -> Iterator[Vector]:
    """Yield group T."""
    yield vector("T1", "expired", "EXPIRED", stated(expiresAt="2026-11-30T23:59:59Z"))
    yield vector("T1b", "in its last second", ACCEPT, stated(expiresAt=world.NOW))
    yield vector("T2", "issued in five days", "NOT_YET", stated(issuedAt="2026-12-06T00:00:00Z"))
    yield vector("T2b", "issued a second beyond the skew", "NOT_YET", stated(issuedAt="2026-12-01T00:05:01Z"))
    yield vector("T2c", "issued within the skew", ACCEPT, stated(issuedAt="2026-12-01T00:05:00Z"))
    yield vector("T3", "a life of ten years", "LIFETIME", stated(expiresAt="2036-11-29T00:00:00Z"))
    yield vector(
        "T3b",
        "ends before it starts",
        "LIFETIME",
        stated(issuedAt="2026-12-01T00:04:00Z", expiresAt="2026-12-01T00:03:00Z"),
    )
    yield vector("T4", "an offset instead of Z", "TIME_FORMAT", stated(issuedAt="2026-11-29T00:00:00+00:00"))
    yield vector("T4b", "a year beyond 2999", "TIME_FORMAT", stated(expiresAt="9999-12-31T23:59:59Z"))
    yield vector("T5", "30 February", "TIME_FORMAT", stated(expiresAt="2027-02-30T00:00:00Z"))
    yield vector(
        "T6",
        "clock at 1970, expired before min_time",
        "EXPIRED",
        stated(issuedAt="2026-01-02T00:00:00Z", expiresAt="2026-11-19T00:00:00Z"),
        at="1970-01-01T00:00:00Z",
    )
    yield vector(
        "T7",
        "a clock behind the last one seen",
        "CLOCK_ROLLBACK",
        state=remembered(last_seen=parse_time("2026-12-02T00:00:00Z")),
    )


def gates() -> Iterator[Vector]:
    """Yield group G."""
    yield vector("G1", "says FAILED of itself", "RESULT", stated(result="FAILED"))
    yield vector("G2", "a mandatory gate is absent", "GATE_MISSING", predicate(lambda found: found["gates"].pop(0)))
    yield vector("G3", "a gate twice", "GATE_DUP", predicate(lambda found: found["gates"].append(found["gates"][0])))
    count = len(next(row for row in world.RECORD.gates if row.name == COSINE).samples)
    yield vector(
        "G4", "says PASSED below its floor", "GATE_FAIL", gate(COSINE, measured="0.9", samples=["0.9"] * count)
    )
    yield vector(
        "G4b",
        "judged against a looser floor than the rule's",
        "GATE_FLOOR",
        policy=policy(('value = "0.999"', 'value = "0.9999"')),
    )
    yield vector("G4c", "another direction", "GATE_OP", gate(COSINE, op="<="))
    yield vector("G4d", "states another number than its samples give", "GATE_SAMPLES", gate(COSINE, measured="0.9999"))
    yield vector("G5", "n = 1", "GATE_SAMPLES", gate(COSINE, n=1, samples=["0.999"]))
    yield vector("G6", "an extra gate that fails", "GATE_FAIL", predicate(_extra_gate))
    yield vector("G7", "a warn band where the policy takes none", "GATE_WARN", gate(COSINE, band="warn"))
    yield vector(
        "G8", "a host on random weights", "SYNTHETIC", predicate(lambda found: found["host"].update(weights="random"))
    )


def _extra_gate(found: Members) -> None:
    found["gates"].append(
        {
            "name": "own.gate",
            "op": ">=",
            "floor": "1",
            "measured": "0.5",
            "n": 1,
            "statistic": "min",
            "samples": ["0.5"],
            "band": "pass",
        }
    )


def _deny(what: str) -> str:
    return policy(("deny = []", f'deny = [{{ {what}, reason = "out-of-bounds read" }}]'))


def _retired(until: str) -> str:
    new = ALICE_KEY.replace("2027-06-01", until)
    return policy((f'{ALICE_KEY}\nstatus = "active"', f'{new}\nstatus = "retired"'))
