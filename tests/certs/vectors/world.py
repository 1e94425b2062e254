"""The world the published vectors are built from: fixed keys, one honest record, one policy that allows it.

The private keys below are printed in this file. They exist so that anybody can build the same bytes again; a policy
that trusts one of them trusts everybody.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, statement
from pytest_frt.certs.keys import SigningKey
from pytest_frt.certs.mandatory import RULES, GateRule, groups_for
from pytest_frt.contracts.device import DeviceFacts
from pytest_frt.contracts.host import HostFacts
from pytest_frt.contracts.record import (
    CalibrationFacts,
    FileDigest,
    GateRow,
    KernelFacts,
    PlanRecord,
    Record,
    SeatRecord,
)
from pytest_frt.contracts.seat import ModuleSeat, PointAt, SeatFacts, SlotRef
from pytest_frt.rules.rows import FRT_NW_1, decimal

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


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


POLICY: Final = f"""\
# TEST KEYS: everybody has them. Never trust this file.
schema = "frt-trust/1"
version = 7
expires = "2027-03-01T00:00:00Z"
min_time = "2026-11-20T00:00:00Z"
skew_s = 300
max_life_days = 400
composition = "cell"
deny = []
require = {{ software = ["torch"], device = ["arch", "name"], host = ["transformers", "configDigest"] }}
floors."latency.net_win" = {{ op = ">=", value = "1.02", min_n = 20 }}
floors."parity.seam.rel_l2" = {{ op = "<=", value = "0.1" }}
[[key]]
owner = "alice"
public = "{ALICE.public.text}"
from = "2026-01-01T00:00:00Z"
until = "2027-06-01T00:00:00Z"
status = "active"
[[key]]
owner = "bob"
public = "{BOB.public.text}"
from = "2026-01-01T00:00:00Z"
until = "2027-06-01T00:00:00Z"
status = "active"
[[rule]]
issuer = "acme"
signers = ["alice"]
threshold = 1
structures = ["decoder_ffn@1"]
kernels = ["acme/*"]
hosts = ["toy"]
devices = ["cpu"]
schemes = ["w16a32"]
floors."parity.host.cosine" = {{ op = ">=", value = "0.999", min_n = 12 }}
"""


def policy(*changes: tuple[str, str]) -> str:
    """Return the policy with words replaced; each must be there, or the vector would show nothing."""
    text = POLICY
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the policy does not hold {old!r}")
        text = text.replace(old, new, 1)
    return text


def honest_row(name: str, rule: GateRule) -> GateRow:
    """Return a row that holds its gate, whatever gate the table of the verifier asks for."""
    if FRT_NW_1 in rule.folds:
        samples = tuple(f"{process}:1.31" for process in range(8) for _ in range(3))
        return GateRow(name, rule.op, str(rule.limit), "1.31", len(samples), FRT_NW_1, samples)
    floor = Decimal(rule.suggested or (rule.limit if rule.limit is not None else "0.01"))
    value = decimal(floor if rule.op == ">=" else floor / 2)
    samples = (value,) * max(rule.min_n, 2)
    return GateRow(name, rule.op, decimal(floor), value, len(samples), rule.folds[0], samples)


def honest_rows(*, plan: bool) -> tuple[GateRow, ...]:
    names = [name for group in groups_for(plan=plan, random_weights=False) for name in group[0]]
    return tuple(honest_row(name, RULES[name]) for name in names)


HOST: Final = HostFacts(
    name="toy",
    host_class="transformers.models.toy.ToyForCausalLM",
    library={"transformers": "5.24.0"},
    config_digest=digest("config"),
    module_source={"toy.ToyMLP": digest("source")},
    weights="trained",
    checkpoint=f"sha256:{digest('files')}",
)
DEVICE: Final = DeviceFacts("cpu", "x86_64", "Some CPU @ 2.00GHz", ("avx2",), 2, "mkl,onednn")
SOFTWARE: Final = {"torch": "2.13.0+cpu", "kernels": "0.17.2"}
CHECKER: Final = FileDigest("pytest-frt 0.1.0", digest("checker"))
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
    facts=SeatFacts(
        structure="decoder_ffn",
        seat=ModuleSeat("model.layers.0.mlp"),
        variant={"activation": "silu"},
        dims={"D": 640, "F": 2048},
        slots={"w_up": SlotRef("model.layers.0.mlp.up_proj.weight", transpose=True)},
        constants={"eps": 1e-06},
        dtype="float32",
        points={"x": PointAt("model.layers.0.mlp.up_proj")},
    ),
    weights_digest=digest("weights"),
    scales={"x": "0.00001234567"},
)
RECORD: Final = Record(
    key=RecordKey(Cell("decoder_ffn", "fast", "toy", "w16a32", "cpu"), "eager", "decode", "real"),
    structure_version=1,
    impl_version=1,
    subjects=tuple(FileDigest(name, digest(text)) for name, text in sorted(FILES.items())),
    kernel=KernelFacts("acme/frt-cpu", "a" * 40, "torch-noarch", tree_digest(KERNEL_FILES)),
    host=HOST,
    device=DEVICE,
    software=SOFTWARE,
    seats=(SEAT,),
    refused={},
    rows=(1, 8),
    dtype="float32",
    calibration=CalibrationFacts(FileDigest("scales.safetensors", digest("s")), "amax", 8, digest("c"), digest("h")),
    gates=honest_rows(plan=False),
    attempts=1,
    seed=7,
    evidence=(FileDigest("evidence/timing.json", digest("timing")),),
    checker=CHECKER,
)


def cell_payload(record: Record = RECORD, **terms: Any) -> bytes:
    return statement.build_cell(record, **(TERMS | terms))


def plan_payload(*members: bytes) -> bytes:
    """Return the payload of a plan over cell payloads."""
    cells = {hashlib.sha256(member).hexdigest(): statement.parse_payload(member).title for member in members}
    plan = PlanRecord(
        name="toy-cpu@eager.decode.real.hot",
        members=tuple(sorted(cells)),
        keys=tuple(cells[name] for name in sorted(cells)),
        dropped={},
        gates=honest_rows(plan=True),
        host=HOST,
        device=DEVICE,
        software=SOFTWARE,
        attempts=1,
        seed=7,
        checker=CHECKER,
    )
    return statement.build_plan(plan, **TERMS)


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
