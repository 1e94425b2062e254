"""The world the published vectors are built from: fixed keys, one honest record, one policy that allows it.

The private keys below are printed in this file. They exist so that anybody can build the same bytes again; a policy
that trusts one of them trusts everybody.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, statement
from pytest_frt.certs.keys import SigningKey
from pytest_frt.contracts.record import FileDigest, KernelFacts, Record, SeatRecord
from tests.certs import sample
from tests.certs.sample import digest

Spoil = Callable[[dict[str, Any]], object]

NOW: Final = "2026-12-01T00:00:00Z"
ISSUED: Final = datetime(2026, 11, 29, tzinfo=UTC)
EXPIRES: Final = datetime(2027, 5, 28, tzinfo=UTC)
TERMS: Final[dict[str, Any]] = {"issuer": "acme", "serial": 42, "issued_at": ISSUED, "expires_at": EXPIRES}


def published_key(owner: str) -> SigningKey:
    """Return the same key on every machine; its secret is the sha256 of a published sentence."""
    seed = hashlib.sha256(f"a published test key, never to be trusted: {owner}".encode()).digest()
    return SigningKey(Ed25519PrivateKey.from_private_bytes(seed))


ALICE, BOB, CAROL, MALLORY = map(published_key, ("alice", "bob", "carol", "mallory"))


POLICY: Final = f"""\
# TEST KEYS: everybody has them. Never trust this file.
{sample.policy_text(ALICE.public, BOB.public, "cell")}"""


def policy(*changes: tuple[str, str]) -> str:
    """Return the policy with words replaced; each must be there, or the vector would show nothing."""
    text = POLICY
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the policy does not hold {old!r}")
        text = text.replace(old, new, 1)
    return text


HOST: Final = sample.HOST
DEVICE: Final = replace(sample.DEVICE, isa=("avx2",))
# What the files of every tree vector hold, by role-qualified name.
FILES: Final = {
    "kernel/__init__.py": "from . import ops\n",
    "kernel/_ffn_cpu.abi3.so": "stands for machine code\n",
    "kernel/ops.py": "def ffn(x):\n    return x\n",
    "impl/fast.py": "IMPL = None\n",
    "structure/structure.yaml": "name: decoder_ffn\n",
    "reference/reference.py": "def reference(x):\n    return x\n",
}


def tree_digest(files: dict[str, str]) -> str:
    """Return frt-tree-v1, written a second time after its description: sorted names, lengths, digests."""
    sha = hashlib.sha256(b"frt-tree-v1\0")
    for name in sorted(files):
        sha.update(len(name).to_bytes(4, "big") + name.encode() + hashlib.sha256(files[name].encode()).digest())
    return sha.hexdigest()


KERNEL_FILES: Final = {name.removeprefix("kernel/"): text for name, text in FILES.items() if name.startswith("kernel/")}
SEAT: Final = SeatRecord(
    replace(sample.seat(0).facts, variant={"activation": "silu"}), digest("weights"), {"x": "0.00001234567"}
)
RECORD: Final = replace(
    sample.RECORD,
    key=RecordKey(Cell("decoder_ffn", "fast", "toy", "w16a32", "cpu"), "eager", "decode", "real"),
    subjects=tuple(FileDigest(name, digest(text)) for name, text in sorted(FILES.items())),
    kernel=KernelFacts("acme/frt-cpu", "a" * 40, "torch-noarch", tree_digest(KERNEL_FILES)),
    device=DEVICE,
    seats=(SEAT,),
    refused={},
)


def cell_payload(record: Record = RECORD, **terms: Any) -> bytes:
    return statement.build_cell(record, **(TERMS | terms))


def plan_payload(*members: bytes) -> bytes:
    """Return the payload of a plan over cell payloads."""
    return statement.build_plan(sample.plan_record(*members, device=DEVICE), **TERMS)


def spoiled(spoil: Spoil, payload: bytes) -> bytes:
    """Return a payload with one change, past every check of the signer."""
    document = json.loads(payload)
    spoil(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def text64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def envelope(payload: bytes, signers: Iterable[SigningKey] = (ALICE,)) -> dict[str, Any]:
    """Return an envelope around any bytes, signed."""
    return {
        "payload": text64(payload),
        "payloadType": dsse.PAYLOAD_TYPE,
        "signatures": [{"keyid": key.public.keyid, "sig": text64(key.sign(dsse.pae(payload)))} for key in signers],
    }


def dumped(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def line(payload: bytes, *signers: SigningKey) -> bytes:
    """Return one line of a certificate set, signed by alice unless others are named."""
    return dumped(envelope(payload, signers or (ALICE,)))
