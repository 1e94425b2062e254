"""A report as a run writes it: made through the document, with everything a page shows in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_frt.cell import Cell, RecordKey
from pytest_frt.contracts.host import BuildRequest, HostSpec, PhaseSpec
from pytest_frt.contracts.job import HostRef, UnitRef
from pytest_frt.contracts.seat import NotReplaced
from pytest_frt.contracts.verdict import Measured, NotRun, Pass, Refusal, Verdict
from pytest_frt.expand import NotSupported
from pytest_frt.report import document
from pytest_frt.report.collected import Collected
from pytest_frt.report.ending import Ending
from pytest_frt.report.lines import Rerun
from pytest_frt.report.told import Fault, Told
from pytest_frt.rules.fold import RECORD_GATES
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan
from pytest_frt.run.results import GateResult, Member, UnionResult
from pytest_frt.run.shown import Bound, SeatNumber, SeatShown, Shown, Trace

TAIL = "@eager.decode.real.hot"
WINS = f"decoder_ffn-packed-toy-w16a32-cpu{TAIL}"
SLOW = f"qkv_pack-packed-toy-w16a32-cpu{TAIL}"
WRONG = f"norm-packed-toy-w16a32-cpu{TAIL}"
LOST = f"norm-packed-lost-w16a32-cpu{TAIL}"
LOST_TOO = f"qkv_pack-packed-lost-w16a32-cpu{TAIL}"
SEATS = tuple(f"layers.{index}.mlp" for index in range(14))
RATIOS = ((1.10, 1.12, 1.08), (1.01, 1.14, 1.11))
UNREADABLE = Fault("CHECKPOINT", "weights of lost cannot be read\n  next: fetch them again", 4)
SETTINGS = RunConfig(
    Selection({"host": ("toy", "lost")}), ("eager",), None, None, "out", "cache", 7, None, "self", quick=False,
    timing=True, kernel=(), json=None, threads=2, comparison=True,
    origins={"host": "command line", "seed": "[tool.pytest_frt]", "threads": "default"},
)  # fmt: skip


def planned(name: str) -> RecordPlan:
    """Return the plan of a record key id."""
    key = RecordKey.parse(name)
    cell = key.cell
    spec = HostSpec(
        name=cell.host, summary="A toy.", output="values", sizes=("real",), weights={"real": "trained"},
        forms=("eager",), phases=(PhaseSpec("decode", (1, 8), 1, 4),), structures=(), exclude={},
        calibration_samples=2, heldout_samples=12, requires={}, multimodal=False, digest="0" * 64,
        source_digest="0" * 64, folder="/nowhere",
    )  # fmt: skip
    host = HostRef(cell.host, "/nowhere", BuildRequest("real", 0, None, "cpu", "/nowhere"), 2)
    unit = UnitRef(cell.structure, "/", cell.impl, "/", cell.scheme, "/", "acme/none", "/", "0" * 64, (1, 8))
    return RecordPlan(key, host, spec, unit)


def win(pooled: float) -> tuple[Measured, ...]:
    """Return the numbers of a timed gate."""
    spread = (("pooled_median", 0.0), ("interval_low", -0.02), ("interval_high", 0.03))
    return tuple(Measured(name, pooled + off, ">", 1.02, 6) for name, off in spread)


def shown(gate: str) -> Shown | None:
    """Return what a gate leaves for a page."""
    numbers = [
        (SeatNumber("rel_l2", 0.001 * index, 0.02, "real#0", 640), SeatNumber("slope", 1e-5, 0.002, "ramp#0", 64))
        for index in range(len(SEATS))
    ]
    trace = Trace(0, (1.0, 1.002, 0.999), (1e-3, 1.1e-3, None), (1.0,), 0.02, 0.018, 0.0, 0.02, 1.0)
    return {
        "null_control": Shown(not_replaced=(NotReplaced("lm_head", "linear", "no structure has a place for it"),)),
        "parity": Shown(
            seats=tuple(map(SeatShown, SEATS, numbers)),
            bounds=(Bound("seam.rel_l2", "<=", 0.02, "scheme w16a32", "half a step"),),
        ),
        "net_win": Shown(traces=(trace, replace(trace, process=1)), witness_s=(0.02, 0.021, 0.02)),
    }.get(gate)


def judged(name: str, **verdicts: Verdict) -> list[GateResult]:
    """Return the results of one record: gates that are not given pass, those after one that does not are not run."""
    out: list[GateResult] = []
    cause = ""
    for gate in RECORD_GATES:
        usual = win(1.11) if gate == "net_win" else (Measured("host.cosine.worst", 0.998, ">=", 0.995, 12),)
        verdict = NotRun(gate, cause) if cause else verdicts.get(gate, Pass(gate, usual))
        run = not isinstance(verdict, NotRun)
        ratios = RATIOS if gate == "net_win" and run else ()
        out.append(GateResult(name, gate, verdict, SEATS, (), 0.5, ratios=ratios, shown=shown(gate) if run else None))
        cause = cause or ("" if isinstance(verdict, Pass) else gate)
    return out


def run() -> Collected:
    """Return a run with a record that wins, one that is slow, one that is wrong and a host that cannot be built."""
    gain = Measured("seam.slope", 0.01, "<=", 0.002, 640, at="layers.0.mlp|real#0")
    seat = Refusal("parity", "gain", "slope 0.01", at="layers.0.mlp", measured=(gain,))
    wrong = judged(WRONG, parity=Refusal("parity", "gain", "14 of 14 seats: slope", measured=(gain,)))
    wrong[2] = replace(wrong[2], refused=(seat,), survivors=SEATS[1:])
    collected = Collected()
    slow = Refusal("net_win", "no_win", "pooled median 0.97 is a loss", measured=win(0.97))
    for result in (*judged(WINS), *judged(SLOW, net_win=slow), *wrong):
        collected.add(Told(result.record, result.gate, result=result))
    collected.add(Told(LOST, "null_control", fault=UNREADABLE))
    stopped = f"stopped by {UNREADABLE.code}: {UNREADABLE.message.splitlines()[0]}"
    for gate in RECORD_GATES:
        collected.add(Told(LOST_TOO, gate, result=GateResult(LOST_TOO, gate, NotRun(gate, stopped))))
    members = (Member(WINS, SEATS, 1.11), Member(SLOW, SEATS, 1.05))
    union = UnionResult("toy-cpu@eager.decode.real.hot", Pass("union", win(1.13)), members, ratios=RATIOS)
    collected.add(Told(union.union, "union", union=union))
    return collected


def report(tmp_path: Path, *, settings: RunConfig = SETTINGS, absent: str = "no kernel serves cpu") -> dict[str, Any]:
    """Return the report of :func:`run`, read back; its first record is certified."""
    records = tuple(map(planned, (WINS, SLOW, WRONG, LOST, LOST_TOO)))
    unions = (UnionPlan("toy-cpu@eager.decode.real.hot", records[:3]),)
    cells = (NotSupported(Cell.parse("norm-fp8-toy-fp8_static-cpu"), absent),)
    file = tmp_path / "statement.json"
    file.write_bytes(b"stated")
    ending = Ending({WINS: file}, "", ("a note",), 1)
    made = document.build(run(), settings, RunPlan(records, unions, cells), Rerun(settings), ending)
    found: dict[str, Any] = json.loads(document.dumps(made))
    found["records"][0] |= {"outcome": "CERTIFIED", "gate": "", "reason": "", "detail": ""}
    found["totals"]["certified"] = 1
    return found
