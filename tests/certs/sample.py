"""Parts of an honest certificate, for every test and benchmark that builds one: each changes what it is about.

Nothing here was measured. Gates come from the verifier's own table, so that a gate that becomes mandatory is in every
built certificate at once. The published vectors are built from these parts: a change that alters a byte of them shows.
Modules that are also loaded by path load this one by path too.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.certs import statement
from pytest_frt.certs.keys import PublicKey
from pytest_frt.certs.mandatory import RULES, groups_for
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

PROCESSES: Final = 8
UNITS: Final = 3
FLOOR_OF_THE_SCHEME: Final = "0.01"
"""Floor of a gate for which neither the verifier nor a first policy has a number."""


def digest(text: str) -> str:
    """Return the sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_table(owner: str, public: PublicKey) -> str:
    """Return the lines of a policy that trust a key."""
    return f"""\
[[key]]
owner = "{owner}"
public = "{public.text}"
from = "2026-01-01T00:00:00Z"
until = "2027-06-01T00:00:00Z"
status = "active"
"""


def policy_text(alice: PublicKey, bob: PublicKey, composition: str) -> str:
    """Return a policy under which the record below is accepted once alice has signed it."""
    return f"""\
schema = "frt-trust/1"
version = 7
expires = "2027-03-01T00:00:00Z"
min_time = "2026-11-20T00:00:00Z"
skew_s = 300
max_life_days = 400
composition = "{composition}"
deny = []
require = {{ software = ["torch"], device = ["arch", "name"], host = ["transformers", "configDigest"] }}
floors."latency.net_win" = {{ op = ">=", value = "1.02", min_n = 20 }}
floors."parity.seam.rel_l2" = {{ op = "<=", value = "0.1" }}
{key_table("alice", alice)}{key_table("bob", bob)}\
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


def gate(name: str, count: int = 2) -> GateRow:
    """Return a row of ``count`` samples or more that holds its gate, whatever the table of the verifier asks for."""
    rule = RULES[name]
    if FRT_NW_1 in rule.folds:
        samples = tuple(f"{process}:1.31" for process in range(PROCESSES) for _ in range(UNITS))
        return GateRow(name, rule.op, str(rule.limit), "1.31", len(samples), FRT_NW_1, samples)
    floor = Decimal(rule.suggested or (rule.limit if rule.limit is not None else FLOOR_OF_THE_SCHEME))
    value = decimal(floor if rule.op == ">=" else floor / 2)
    samples = (value,) * max(rule.min_n, count)
    return GateRow(name, rule.op, decimal(floor), value, len(samples), rule.folds[0], samples)


def gates(*, plan: bool, count: int = 2) -> tuple[GateRow, ...]:
    """Return every gate that is mandatory, in the order of the verifier's table."""
    names = [name for group in groups_for(plan=plan, random_weights=False) for name in group[0]]
    return tuple(gate(name, count) for name in names)


HOST: Final = HostFacts(
    name="toy",
    host_class="transformers.models.toy.ToyForCausalLM",
    library={"transformers": "5.24.0"},
    config_digest=digest("config"),
    module_source={"toy.ToyMLP": digest("source")},
    weights="trained",
    checkpoint=f"sha256:{digest('files')}",
)
DEVICE: Final = DeviceFacts("cpu", "x86_64", "Some CPU @ 2.00GHz", ("avx2", "avx512f"), 2, "mkl,onednn")
SOFTWARE: Final = {"torch": "2.13.0+cpu", "kernels": "0.17.2"}
CHECKER: Final = FileDigest("pytest-frt 0.1.0", digest("checker"))


def seat(layer: int) -> SeatRecord:
    """Return the certified seat of one layer."""
    at = f"model.layers.{layer}.mlp"
    facts = SeatFacts(
        structure="decoder_ffn",
        seat=ModuleSeat(at),
        variant={"activation": "gelu_tanh"},
        dims={"D": 640, "F": 2048},
        slots={"w_up": SlotRef(f"{at}.up_proj.weight", transpose=True)},
        constants={"eps": 1e-06},
        dtype="float32",
        points={"x": PointAt(f"{at}.up_proj")},
    )
    return SeatRecord(facts, digest(f"weights {layer}"), {"x": "0.00001234567"})


def named(*names: str) -> tuple[FileDigest, ...]:
    """Return subjects of files that hold their own name."""
    return tuple(FileDigest(name, digest(name)) for name in names)


RECORD: Final = Record(
    key=RecordKey(Cell("decoder_ffn", "torch_packed", "toy", "w16a32", "cpu"), "eager", "decode", "real"),
    structure_version=1,
    impl_version=1,
    subjects=named("kernel/__init__.py", "impl/a.py", "structure/structure.yaml", "reference/reference.py"),
    kernel=KernelFacts("acme/frt-cpu", "a" * 40, "torch-noarch", digest("tree")),
    host=HOST,
    device=DEVICE,
    software=SOFTWARE,
    seats=(seat(0), seat(1)),
    refused={"model.layers.2.mlp": "parity: relative L2 0.2 > 0.002"},
    rows=(1, 8),
    dtype="float32",
    calibration=CalibrationFacts(FileDigest("scales.safetensors", digest("s")), "amax", 8, digest("c"), digest("h")),
    gates=gates(plan=False),
    attempts=1,
    seed=7,
    evidence=(FileDigest("evidence/timing.json", digest("timing")),),
    checker=CHECKER,
)


def plan_record(*members: bytes, **changes: Any) -> PlanRecord:
    """Return the plan of cell payloads, on the host, device and software of ``RECORD`` unless others are given."""
    titles = {hashlib.sha256(member).hexdigest(): statement.parse_payload(member).title for member in members}
    plan = PlanRecord(
        name="toy-cpu@eager.decode.real.hot",
        members=tuple(sorted(titles)),
        keys=tuple(titles[name] for name in sorted(titles)),
        dropped={},
        gates=gates(plan=True),
        host=HOST,
        device=DEVICE,
        software=SOFTWARE,
        attempts=1,
        seed=7,
        checker=CHECKER,
    )
    return replace(plan, **changes)
