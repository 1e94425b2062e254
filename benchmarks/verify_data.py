"""Synthetic certificates that are valid and signed: what ``verify_speed.py`` verifies.

Gates are built from the verifier's own table, so that a gate that becomes mandatory is in them at once. Every number is
made up; nothing of these certificates was measured.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import dsse, keys, policy, statement
from pytest_frt.contracts.record import GateRow, PlanRecord, Record, SeatRecord
from pytest_frt.contracts.seat import SlotRef
from pytest_frt.rules.rows import net_win_row
from pytest_frt.spec.modules import load_file

sample = load_file(Path(__file__).resolve().parent.parent / "tests" / "certs" / "sample.py")
NOW: Final = datetime(2026, 12, 1, tzinfo=UTC)
ISSUED: Final = NOW - timedelta(days=2)
EXPIRES: Final = ISSUED + timedelta(days=180)
ISSUER: Final = "acme"
UNITS_AT_FIRST_LOOK: Final = 3
UNITS_AT_LAST_LOOK: Final = 10
SOFTWARE: Final = {**sample.SOFTWARE, "safetensors": "0.6.2"}
POLICY: Final = """\
schema = "frt-trust/1"
version = 1
expires = "2027-03-01T00:00:00Z"
min_time = "2026-11-20T00:00:00Z"
composition = "plan"
floors."latency.net_win" = {{ op = ">=", value = "1.02", min_n = 20 }}
{key}[[rule]]
issuer = "acme"
signers = ["alice"]
structures = ["*"]
kernels = ["acme/*"]
hosts = ["toy"]
devices = ["cpu"]
schemes = ["*"]
"""
FILES: Final = (
    "kernel/__init__.py",
    "kernel/_ops.abi3.so",
    "kernel/metadata.json",
    "impl/_shared/pack.py",
    "structure/structure.yaml",
    "reference/reference.py",
    "host/host.yaml",
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
    record: PlanRecord = sample.plan_record(
        *members, gates=_gates(1, UNITS_AT_FIRST_LOOK, plan=True), software=SOFTWARE
    )
    whole = statement.build_plan(record, issuer=ISSUER, serial=1, issued_at=ISSUED, expires_at=EXPIRES)
    return _set([*members, whole], keys.generate())


def _set(payloads: list[bytes], key: keys.SigningKey) -> Signed:
    lines = tuple(_signed(payload, key) for payload in payloads)
    trust = policy.parse(POLICY.format(key=sample.key_table("alice", key.public)).encode())
    return Signed(lines, tuple(payloads), replace(trust, source="frt-trust.toml"), key.public)


def _signed(payload: bytes, key: keys.SigningKey) -> bytes:
    return dsse.sign(payload, key).encode()


def _cell(index: int, seats: int, units: int) -> bytes:
    record: Record = replace(
        sample.RECORD,
        key=RecordKey(Cell("decoder_ffn", f"packed_{index}", "toy", "w16a32", "cpu"), "eager", "decode", "real"),
        subjects=sample.named(*FILES, f"impl/packed_{index}.py"),
        software=SOFTWARE,
        seats=tuple(_seat(index * seats + number) for number in range(seats)),
        refused={f"model.layers.{index}.other": "parity: relative L2 0.2 > 0.002"},
        gates=_gates(seats, units, plan=False),
    )
    return statement.build_cell(record, issuer=ISSUER, serial=1, issued_at=ISSUED, expires_at=EXPIRES)


def _seat(layer: int) -> SeatRecord:
    seat: SeatRecord = sample.seat(layer)
    at, slots = seat.facts.id, (("w_gate", "gate"), ("w_up", "up"), ("w_down", "down"))
    named = {name: SlotRef(f"{at}.{part}_proj.weight", transpose=True) for name, part in slots}
    return replace(seat, facts=replace(seat.facts, slots=named))


def _gates(seats: int, units: int, *, plan: bool) -> tuple[GateRow, ...]:
    """Return the mandatory gates with a sample per seat, and net-win units that differ as measured ones do."""
    draw = random.Random(units)  # noqa: S311 (made-up numbers)
    drawn = net_win_row([[draw.uniform(1.25, 1.45) for _ in range(units)] for _ in range(sample.PROCESSES)])
    rows: tuple[GateRow, ...] = sample.gates(plan=plan, count=seats)
    return tuple(drawn if row.name == drawn.name else row for row in rows)
