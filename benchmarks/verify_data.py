"""Synthetic certificates that are valid and signed: what ``verify_speed.py`` verifies.

Gates are built from the verifier's own table, so that a gate that becomes mandatory is in them at once. Every number is
made up; nothing of these certificates was measured.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, keys, policy, statement
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
from pytest_frt.rules.rows import FRT_NW_1, net_win_row

NOW: Final = datetime(2026, 12, 1, tzinfo=UTC)
ISSUED: Final = NOW - timedelta(days=2)
EXPIRES: Final = ISSUED + timedelta(days=180)
ISSUER: Final = "acme"
PROCESSES: Final = 8
UNITS_AT_FIRST_LOOK: Final = 3
UNITS_AT_LAST_LOOK: Final = 10
DEVICE: Final = DeviceFacts("cpu", "x86_64", "Some CPU @ 2.00GHz", ("avx2", "avx512f"), 2, "mkl,onednn")
SOFTWARE: Final = {"torch": "2.13.0+cpu", "kernels": "0.17.2", "safetensors": "0.6.2"}
POLICY: Final = """
schema = "frt-trust/1"
version = 1
expires = "2027-03-01T00:00:00Z"
min_time = "2026-11-20T00:00:00Z"
composition = "plan"
floors."latency.net_win" = {{ op = ">=", value = "1.02", min_n = 20 }}
[[key]]
owner = "alice"
public = "{public}"
from = "2026-01-01T00:00:00Z"
until = "2027-06-01T00:00:00Z"
status = "active"
[[rule]]
issuer = "acme"
signers = ["alice"]
structures = ["*"]
kernels = ["acme/*"]
hosts = ["toy"]
devices = ["cpu"]
schemes = ["*"]
"""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


HOST: Final = HostFacts(
    name="toy",
    host_class="transformers.models.toy.modeling_toy.ToyForCausalLM",
    library={"transformers": "5.24.0"},
    config_digest=_digest("config"),
    module_source={"transformers.models.toy.modeling_toy.ToyMLP": _digest("source")},
    weights="trained",
    checkpoint=f"sha256:{_digest('files')}",
)


@dataclass(frozen=True, slots=True)
class Signed:
    """Lines of a certificate set, the policy that trusts them, and what they are made of.

    Attributes:
        lines: Envelopes; the plan, if there is one, is the last.
        payloads: Payload bytes of each line.
        trust: The loaded policy.
        key: Public key of the one signer.
    """

    lines: tuple[bytes, ...]
    payloads: tuple[bytes, ...]
    trust: policy.Policy
    key: keys.PublicKey


def one_certificate(limit: int) -> Signed:
    """Return one cell certificate with every net-win unit and as many seats as fit into ``limit`` bytes of a line."""
    key = keys.generate()
    seats = 1
    while len(_signed(_cell(0, seats + 1, UNITS_AT_LAST_LOOK), key)) <= limit:
        seats += 1
    return _set([_cell(0, seats, UNITS_AT_LAST_LOOK)], key)


def plan(cells: int, seats: int) -> Signed:
    """Return ``cells`` certificates of ``seats`` seats each, decided at the first look, and a plan of them all."""
    members = [_cell(index, seats, UNITS_AT_FIRST_LOOK) for index in range(cells)]
    found = sorted((hashlib.sha256(member).hexdigest(), _key(index).id) for index, member in enumerate(members))
    record = PlanRecord(
        name="toy-cpu@eager.decode.real.hot",
        members=tuple(name for name, _ in found),
        keys=tuple(name for _, name in found),
        dropped={},
        gates=_gates(1, UNITS_AT_FIRST_LOOK, plan=True),
        host=HOST,
        device=DEVICE,
        software=SOFTWARE,
        attempts=1,
        seed=7,
        checker=FileDigest("pytest-frt 0.1.0", _digest("checker")),
    )
    whole = statement.build_plan(record, issuer=ISSUER, serial=1, issued_at=ISSUED, expires_at=EXPIRES)
    return _set([*members, whole], keys.generate())


def _set(payloads: list[bytes], key: keys.SigningKey) -> Signed:
    lines = tuple(_signed(payload, key) for payload in payloads)
    trust = policy.parse(POLICY.format(public=key.public.text).encode())
    return Signed(lines, tuple(payloads), replace(trust, source="frt-trust.toml"), key.public)


def _signed(payload: bytes, key: keys.SigningKey) -> bytes:
    return dsse.sign(payload, key).encode()


def _key(index: int) -> RecordKey:
    return RecordKey(Cell("decoder_ffn", f"packed_{index}", "toy", "w16a32", "cpu"), "eager", "decode", "real")


def _cell(index: int, seats: int, units: int) -> bytes:
    names = ("kernel/__init__.py", "kernel/_ops.abi3.so", "kernel/metadata.json", f"impl/packed_{index}.py")
    others = ("impl/_shared/pack.py", "structure/structure.yaml", "reference/reference.py", "host/host.yaml")
    record = Record(
        key=_key(index),
        structure_version=1,
        impl_version=1,
        subjects=tuple(FileDigest(name, _digest(name)) for name in (*names, *others)),
        kernel=KernelFacts("acme/frt-cpu", "a" * 40, "torch-noarch", _digest("tree")),
        host=HOST,
        device=DEVICE,
        software=SOFTWARE,
        seats=tuple(_seat(index * seats + number) for number in range(seats)),
        refused={f"model.layers.{index}.other": "parity: relative L2 0.2 > 0.002"},
        rows=(1, 8),
        dtype="float32",
        calibration=CalibrationFacts(
            FileDigest("scales.safetensors", _digest("s")), "amax", 8, _digest("c"), _digest("h")
        ),
        gates=_gates(seats, units, plan=False),
        attempts=1,
        seed=7,
        evidence=(FileDigest("evidence/timing.json", _digest("timing")),),
        checker=FileDigest("pytest-frt 0.1.0", _digest("checker")),
    )
    return statement.build_cell(record, issuer=ISSUER, serial=1, issued_at=ISSUED, expires_at=EXPIRES)


def _seat(layer: int) -> SeatRecord:
    at = f"model.layers.{layer}.mlp"
    facts = SeatFacts(
        structure="decoder_ffn",
        seat=ModuleSeat(at),
        variant={"activation": "gelu_tanh"},
        dims={"D": 640, "F": 2048},
        slots={
            name: SlotRef(f"{at}.{part}_proj.weight", transpose=True)
            for name, part in (("w_gate", "gate"), ("w_up", "up"), ("w_down", "down"))
        },
        constants={"eps": 1e-06},
        dtype="float32",
        points={"x": PointAt(f"{at}.up_proj")},
    )
    return SeatRecord(facts, _digest(f"weights {layer}"), {"x": "0.00001234567"})


def _gates(seats: int, units: int, *, plan: bool) -> tuple[GateRow, ...]:
    names = [name for group in groups_for(plan=plan, random_weights=False) for name in group[0]]
    return tuple(_row(name, RULES[name], seats, units) for name in names)


def _row(name: str, rule: GateRule, seats: int, units: int) -> GateRow:
    if FRT_NW_1 in rule.folds:
        draw = random.Random(units)  # noqa: S311 (made-up numbers)
        return net_win_row([[draw.uniform(1.25, 1.45) for _ in range(units)] for _ in range(PROCESSES)])
    floor = rule.suggested if rule.limit is None and rule.suggested else str(rule.limit or 0)
    fewest = max(rule.min_n, seats if name.startswith("parity.seam.") else 1)
    return GateRow(name, rule.op, floor, floor, fewest, rule.folds[0], (floor,) * fewest)
