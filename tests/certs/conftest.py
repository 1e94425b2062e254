"""One certified record, two keys and a policy that trusts them: every test spoils one thing of this world."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, keys, policy, statement, verify
from pytest_frt.certs.keys import SigningKey
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

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ALICE, BOB = keys.generate(), keys.generate()
Spoil = Callable[[dict[str, Any]], object]

POLICY = """
schema = "frt-trust/1"
version = 7
expires = "2027-03-01T00:00:00Z"
min_time = "2026-11-20T00:00:00Z"
skew_s = 300
max_life_days = 400
composition = "plan"
deny = []
require = {{ software = ["torch"], device = ["arch", "name"], host = ["transformers", "configDigest"] }}
floors."latency.net_win" = {{ op = ">=", value = "1.02", min_n = 20 }}
floors."parity.seam.rel_l2" = {{ op = "<=", value = "0.1" }}
[[key]]
owner = "alice"
public = "{alice}"
from = "2026-01-01T00:00:00Z"
until = "2027-06-01T00:00:00Z"
status = "active"
[[key]]
owner = "bob"
public = "{bob}"
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


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def row(name: str, op: str, floor: str, samples: list[str], statistic: str, measured: str | None = None) -> GateRow:
    fold = {"max": max, "min": min, "median": lambda values: sorted(values)[len(values) // 2]}
    number = measured or str(fold[statistic](samples))
    return GateRow(name, op, floor, number, len(samples), statistic, tuple(samples))


def count(name: str, op: str, value: str) -> GateRow:
    return row(name, op, value, [value], "max" if op == "<=" else "min")


END_TO_END = (
    row("parity.host.cosine", ">=", "0.999", ["0.9995"] * 13, "median"),
    count("ledger.fallbacks", "<=", "0"),
    count("ledger.never_called", "<=", "0"),
    row("latency.net_win", ">=", "1.02", [f"{p}:1.3{u}" for p in range(8) for u in range(3)], "frt_nw_1", "1.31"),
)
GATES = (
    count("null_control.tensors_differing", "<=", "0"),
    count("null_control.repeat_identical", ">=", "1"),
    row("seats.certified", ">=", "1", ["2"], "min"),
    row("parity.seam.reference_ratio", "<=", "1", ["0.51", "0.6"], "max"),
    row("parity.seam.slope", "<=", "0.002", ["0.0001", "0.0003"], "max"),
    row("parity.seam.rel_l2", "<=", "0.002", ["0.0004", "0.0005"], "max"),
    row("parity.seam.row_rel_l2", "<=", "0.004", ["0.0009", "0.0008"], "max"),
    row("parity.seam.max_abs", "<=", "0.01", ["0.002", "0.003"], "max"),
    row("parity.seam.channel", "<=", "0.002", ["0", "0.0001"], "max"),
    row("parity.seam.alternative", "<=", "0.5", ["0.01", "0.02"], "max"),
    row("parity.seam.untold", "<=", "0", ["0", "0"], "max"),
    count("contract.failed", "<=", "0"),
    *END_TO_END,
)
HOST = HostFacts(
    name="toy",
    host_class="transformers.models.toy.ToyForCausalLM",
    library={"transformers": "5.24.0"},
    config_digest=digest("config"),
    module_source={"ToyMLP": digest("source")},
    weights="trained",
    checkpoint=f"sha256:{digest('files')}",
)
DEVICE = DeviceFacts("cpu", "x86_64", "Some CPU @ 2.00GHz", ("avx2", "avx512f"), 2, "mkl,onednn")
SOFTWARE = {"torch": "2.13.0+cpu", "kernels": "0.17.2"}
CHECKER = FileDigest("pytest-frt 0.1.0", digest("checker"))


def seat(layer: int) -> SeatRecord:
    facts = SeatFacts(
        structure="decoder_ffn",
        seat=ModuleSeat(f"model.layers.{layer}.mlp"),
        variant={"activation": "gelu_tanh"},
        dims={"D": 640, "F": 2048},
        slots={"w_up": SlotRef(f"model.layers.{layer}.mlp.up_proj.weight", transpose=True)},
        constants={"eps": 1e-06, "scale": 25.298221281347036},
        dtype="float32",
        points={"x": PointAt(f"model.layers.{layer}.mlp.up_proj")},
    )
    return SeatRecord(facts, digest(f"weights {layer}"), {"x": "0.00001234567"})


RECORD = Record(
    key=RecordKey(Cell("decoder_ffn", "torch_packed", "toy", "w16a32", "cpu"), "eager", "decode", "real"),
    structure_version=1,
    impl_version=1,
    subjects=tuple(
        FileDigest(name, digest(name))
        for name in ("kernel/__init__.py", "impl/a.py", "structure/structure.yaml", "reference/reference.py")
    ),
    kernel=KernelFacts("acme/frt-cpu", "a" * 40, "torch-noarch", digest("tree")),
    host=HOST,
    device=DEVICE,
    software=SOFTWARE,
    seats=(seat(0), seat(1)),
    refused={"model.layers.2.mlp": "parity: relative L2 0.2 > 0.002"},
    rows=(1, 8),
    dtype="float32",
    calibration=CalibrationFacts(FileDigest("scales.safetensors", digest("s")), "amax", 8, digest("c"), digest("h")),
    gates=GATES,
    attempts=1,
    seed=7,
    evidence=(FileDigest("evidence/timing.json", digest("timing")),),
    checker=CHECKER,
)


@dataclass
class World:
    """Builds payloads, lines and policies; ``spoil`` functions change a parsed statement or its text."""

    alice: SigningKey = ALICE
    bob: SigningKey = BOB
    now: datetime = NOW
    record: Record = RECORD
    policy_text: str = field(default_factory=lambda: POLICY.format(alice=ALICE.public.text, bob=BOB.public.text))

    @property
    def terms(self) -> dict[str, Any]:
        issued = NOW - timedelta(days=2)
        return {"issuer": "acme", "serial": 1, "issued_at": issued, "expires_at": issued + timedelta(days=180)}

    def payload(self, record: Record | None = None) -> bytes:
        return statement.build_cell(record or self.record, **self.terms)

    def plan(self, *members: bytes, **changes: object) -> bytes:
        found = sorted((hashlib.sha256(member).hexdigest(), self.key_of(member)) for member in members)
        plan = PlanRecord(
            name="toy-cpu@eager.decode.real.hot",
            members=tuple(name for name, _ in found),
            keys=tuple(key for _, key in found),
            dropped={},
            gates=END_TO_END,
            host=HOST,
            device=DEVICE,
            software=SOFTWARE,
            attempts=1,
            seed=7,
            checker=CHECKER,
        )
        return statement.build_plan(replace(plan, **changes), **self.terms)

    @staticmethod
    def key_of(payload: bytes) -> str:
        certificate = statement.parse_payload(payload)
        assert isinstance(certificate, statement.CellCertificate)
        return certificate.record.key.id

    def spoiled(self, spoil: Spoil, payload: bytes | None = None) -> bytes:
        """Return a payload with one change, bypassing every check of the signer."""
        document = json.loads(payload or self.payload())
        spoil(document)
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    def line(self, payload: bytes | None = None, key: SigningKey | None = None) -> bytes:
        """Return an envelope around any bytes."""
        data = payload or self.payload()
        signer = key or self.alice
        signature = base64.b64encode(signer.sign(dsse.pae(data))).decode()
        envelope = {
            "payload": base64.b64encode(data).decode(),
            "payloadType": dsse.PAYLOAD_TYPE,
            "signatures": [{"keyid": signer.public.keyid, "sig": signature}],
        }
        return json.dumps(envelope).encode()

    def policy(self, *changes: tuple[str, str]) -> policy.Policy:
        text = self.policy_text
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        return policy.parse(text.encode())

    def verify(self, *lines: bytes, changes: tuple[tuple[str, str], ...] = ()) -> list[verify.Outcome]:
        return list(verify.verify_set(lines, self.policy(*changes), self.now))


@pytest.fixture
def world() -> World:
    return World()
