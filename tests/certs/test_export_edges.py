"""Other forms of a certificate at the edges: every member of a bundle and of a result, and which signature is taken."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_frt.certs import dsse, export, statement
from pytest_frt.errors import UsageFault
from tests.certs.sample import named

if TYPE_CHECKING:
    from tests.certs.conftest import World


def test_a_bundle_holds_this_and_nothing_else(world: World) -> None:
    envelope = dsse.parse_envelope(world.line())
    keyid = world.alice.public.keyid
    assert json.loads(export.sigstore_bundle(envelope, envelope.signatures[0])) == {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": keyid}, "tlogEntries": []},
        "dsseEnvelope": {
            "payload": base64.b64encode(world.payload()).decode(),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{"keyid": keyid, "sig": json.loads(world.line())["signatures"][0]["sig"]}],
        },
    }


@pytest.mark.parametrize("owner", ["alice", "bob"])
def test_the_signature_of_a_key_id_is_taken_from_its_envelope(world: World, owner: str) -> None:
    key = getattr(world, owner)
    envelopes = [dsse.parse_envelope(world.line(key=one)) for one in (world.alice, world.bob)]
    envelope, signature = export.choose_signature(envelopes, key.public.keyid)
    assert (signature.keyid, envelope.signatures) == (key.public.keyid, (signature,))


@pytest.mark.parametrize(("keyid", "count"), [("", 2), ("SHA256:", 2), ("SHA256:-", 0)], ids=repr)
def test_none_or_several_of_a_key_id_are_not_chosen_from(world: World, keyid: str, count: int) -> None:
    envelopes = [dsse.parse_envelope(world.line(key=one)) for one in (world.alice, world.bob)]
    with pytest.raises(UsageFault, match=f"^{count} signatures have a key id that starts with {keyid!r};") as caught:
        export.choose_signature(envelopes, keyid)
    assert world.alice.public.keyid in caught.value.hint
    assert world.bob.public.keyid in caught.value.hint


@pytest.mark.parametrize("warned", [(), ("parity.seam.max_abs", "parity.seam.channel")], ids=["none", "two"])
def test_a_result_holds_this_and_nothing_else(world: World, warned: tuple[str, ...]) -> None:
    gates = tuple(replace(row, band="warn") if row.name in warned else row for row in world.record.gates)
    subjects = (*named("kernel/z.py", "structure/z.yaml", "host/kernel.py"), *world.record.subjects)
    payload = world.payload(replace(world.record, gates=gates, subjects=subjects))
    found = json.loads(export.test_result(statement.check(payload)))
    assert found["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert [one["name"] for one in found["subject"]] == ["kernel/z.py", "kernel/__init__.py"]
    configuration = found["predicate"].pop("configuration")
    assert [one["name"] for one in configuration] == [
        "structure/z.yaml",
        "structure/structure.yaml",
        f"certificate/{world.record.key.id}",
    ]
    assert configuration[-1]["digest"] == {"sha256": hashlib.sha256(payload).hexdigest()}
    assert found["predicate"] == {
        "result": "WARNED" if warned else "PASSED",
        "passedTests": sorted({row.name for row in gates} - {*warned}),
        "warnedTests": sorted(warned),
        "failedTests": [],
    }
