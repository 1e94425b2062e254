"""One certified record, two keys and a policy that trusts them: every test spoils one thing of this world."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.certs import dsse, keys, policy, statement, verify
from pytest_frt.certs.keys import SigningKey
from pytest_frt.contracts.record import GateRow, Record
from pytest_frt.spec.modules import load_file

sample = load_file(Path(__file__).with_name("sample.py"))
NOW = datetime(2026, 12, 1, tzinfo=UTC)
ALICE, BOB = keys.generate(), keys.generate()
Spoil = Callable[[dict[str, Any]], object]


def row(name: str, op: str, floor: str, samples: list[str], statistic: str, measured: str | None = None) -> GateRow:
    fold = {"max": max, "min": min, "median": lambda values: sorted(values)[len(values) // 2]}
    number = measured or str(fold[statistic](samples))
    return GateRow(name, op, floor, number, len(samples), statistic, tuple(samples))


OWN = {
    one.name: one
    for one in (  # folds of different samples: another fold gives another number
        row("parity.host.cosine", ">=", "0.999", ["0.9995"] * 13, "median"),
        row("latency.net_win", ">=", "1.02", [f"{p}:1.3{u}" for p in range(8) for u in range(3)], "frt_nw_1", "1.31"),
        row("parity.seam.reference_ratio", "<=", "1", ["0.51", "0.6"], "max"),
        row("parity.seam.slope", "<=", "0.002", ["0.0001", "0.0003"], "max"),
        row("parity.seam.rel_l2", "<=", "0.002", ["0.0004", "0.0005"], "max"),
        row("parity.seam.row_rel_l2", "<=", "0.004", ["0.0009", "0.0008"], "max"),
        row("parity.seam.max_abs", "<=", "0.01", ["0.002", "0.003"], "max"),
        row("parity.seam.channel", "<=", "0.002", ["0", "0.0001"], "max"),
        row("parity.seam.alternative", "<=", "0.5", ["0.01", "0.02"], "max"),
    )
}
END_TO_END, GATES = (
    tuple(OWN.get(one.name, one) for one in sample.gates(plan=plan, count=1)) for plan in (True, False)
)
HOST, DEVICE, SOFTWARE, CHECKER = sample.HOST, sample.DEVICE, sample.SOFTWARE, sample.CHECKER
SEATS = tuple(
    replace(one, facts=replace(one.facts, constants={"eps": 1e-06, "scale": 25.298221281347036}))
    for one in sample.RECORD.seats
)
RECORD: Record = replace(sample.RECORD, seats=SEATS, gates=GATES)


@dataclass
class World:
    """Builds payloads, lines and policies; ``spoil`` functions change a parsed statement or its text."""

    alice: SigningKey = ALICE
    bob: SigningKey = BOB
    now: datetime = NOW
    record: Record = RECORD
    policy_text: str = sample.policy_text(ALICE.public, BOB.public, "plan")

    @property
    def terms(self) -> dict[str, Any]:
        issued = NOW - timedelta(days=2)
        return {"issuer": "acme", "serial": 1, "issued_at": issued, "expires_at": issued + timedelta(days=180)}

    def payload(self, record: Record | None = None) -> bytes:
        return statement.build_cell(record or self.record, **self.terms)

    def plan(self, *members: bytes, **changes: object) -> bytes:
        plan = sample.plan_record(*members, **{"gates": END_TO_END, **changes})
        return statement.build_plan(plan, **self.terms)

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


@pytest.fixture
def trust(world: World, tmp_path: Path) -> Path:
    """Return the policy of the world as a file that anyone may read."""
    path = tmp_path / "frt-trust.toml"
    path.write_text(world.policy_text)
    path.chmod(0o644)
    return path
