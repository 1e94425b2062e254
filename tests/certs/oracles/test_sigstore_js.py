"""The JavaScript implementation of sigstore accepts our bundles and rejects tampered ones, offline."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pytest_frt.certs.dsse import parse_envelope
from pytest_frt.certs.export import sigstore_bundle
from pytest_frt.certs.keys import PublicKey
from tests.certs.oracles.tampered import LINE, PAYLOAD, TAMPERED, honest, spoiled
from tests.certs.vectors import world

FOLDER = Path(__file__).with_name("js")
NODE = shutil.which("node")
INSTALLED = (FOLDER / "node_modules" / "@sigstore" / "verify").is_dir()
REASON = "node is not here" if NODE is None else f"packages are not installed: make oracles (npm ci in {FOLDER.name}/)"

pytestmark = pytest.mark.skipif(NODE is None or not INSTALLED, reason=REASON)


def exported() -> dict[str, Any]:
    """Return the bundle that we write for others."""
    envelope = parse_envelope(LINE.encode())
    document: dict[str, Any] = json.loads(sigstore_bundle(envelope, envelope.signatures[0]))
    return document


def ask(public: PublicKey, *envelopes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one answer an envelope; all go through one process, since starting it is most of the time."""
    pem = Ed25519PublicKey.from_public_bytes(public.raw).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    question = {
        "key": pem.decode(),
        "bundles": [exported() | {"dsseEnvelope": envelope} for envelope in envelopes],
    }
    done = subprocess.run(
        [str(NODE), "verify.mjs"], cwd=FOLDER, input=json.dumps(question), capture_output=True, text=True, check=True
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    assert len(answers) == len(envelopes)
    return answers


def test_our_bundle_is_accepted_with_exactly_our_payload() -> None:
    (answer,) = ask(world.ALICE.public, exported()["dsseEnvelope"])
    assert base64.b64decode(answer["payload"]) == PAYLOAD, answer["why"]


def test_tampered_bundles_are_rejected() -> None:
    names = [name for name in TAMPERED if name != "no_signature"]
    answers = dict(zip(names, ask(world.ALICE.public, *map(spoiled, names)), strict=True))
    assert {name: answer["payload"] for name, answer in answers.items()} == dict.fromkeys(names)
    assert {answer["why"].partition(":")[0] for answer in answers.values()} == {"VerificationError"}


def test_another_key_is_rejected() -> None:
    (answer,) = ask(world.BOB.public, honest())
    assert answer["payload"] is None
