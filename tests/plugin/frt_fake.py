"""A plugin that plans and judges what ``scenario.json`` in the working directory says: no torch, no worker, no time."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_frt import errors
from pytest_frt.cell import Cell, RecordKey
from pytest_frt.contracts.host import BuildRequest, HostSpec, PhaseSpec
from pytest_frt.contracts.job import HostRef, UnitRef
from pytest_frt.contracts.record import FileDigest, PlanRecord, Record
from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.contracts.verdict import Measured, NotRun, Pass, Verdict
from pytest_frt.expand import NotSupported
from pytest_frt.rules.fold import RECORD_GATES
from pytest_frt.run.config import RunConfig
from pytest_frt.run.emulation import Elsewhere
from pytest_frt.run.evidence import BOUND, keep
from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan
from pytest_frt.run.results import GateResult, Member, UnionResult
from pytest_frt.spec import codec

SEATS = ("model.layers.0.mlp", "model.layers.1.mlp")
NUMBERS = {
    "parity": (Measured("host.top1.worst", 0.95, ">=", 0.85, 12), Measured("host.top1.median", 1.0, ">=", 0.95, 12)),
    "ledger": (Measured("fallbacks", 0, "<=", 0, 2), Measured("served", 48, ">=", 48, 2)),
    "net_win": (
        Measured("pooled_median", 1.31, ">", 1.02, 24),
        Measured("interval_low", 1.22, ">", 1.02, 24),
        Measured("interval_high", 1.4, ">", 1.02, 24),
    ),
}


def certs_world() -> Any:
    """Return the module of tests/certs that holds a record which survives the verifier."""
    file = Path(__file__).parents[1] / "certs" / "conftest.py"
    spec = importlib.util.spec_from_file_location("frt_certs_world", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def planned(name: str, *, emulated: bool = False) -> RecordPlan:
    """Return the plan of a record key id."""
    key = RecordKey.parse(name)
    cell, folder = key.cell, "/nowhere"
    phase = PhaseSpec(key.phase, (1, 8), 1, 4)
    spec = HostSpec(
        name=cell.host, summary="A toy.", output="values", sizes=(key.size,), weights={key.size: "trained"},
        forms=(key.form,), phases=(phase,), structures=(), exclude={}, calibration_samples=2, heldout_samples=12,
        requires={}, multimodal=False, digest="0" * 64, source_digest="0" * 64, folder=folder,
    )  # fmt: skip
    host = HostRef(cell.host, folder, BuildRequest(key.size, 0, None, "cpu", folder), 2)
    unit = UnitRef(
        cell.structure, folder, cell.impl, folder, cell.scheme, folder, "acme/none", folder, "0" * 64, (1, 8)
    )
    return RecordPlan(key, host, spec, unit, emulated)


def unions_of(records: tuple[RecordPlan, ...]) -> tuple[UnionPlan, ...]:
    """Return one union per host and regime."""
    groups: dict[str, list[RecordPlan]] = {}
    for record in records:
        name = f"{record.key.cell.host}-{record.key.cell.device}@{record.id.partition('@')[2]}"
        groups.setdefault(name, []).append(record)
    return tuple(UnionPlan(name, tuple(members)) for name, members in groups.items())


def pairs(speed: float) -> TimingEvidence:
    """Return two processes of three blocks at a speed, a base sample taking 20 ms and a little more each time."""

    def sample(arm: str, at: int) -> TimedSample:
        seconds = (0.02 + at * 1e-5) / (speed if arm != "base" else 1.0)
        return TimedSample(arm, 0, seconds, seconds, 0.001)

    def block(at: int) -> tuple[TimedPair, TimedPair]:
        first, second = (TimedPair(sample("base", at), sample("fast", at), base_first=one) for one in (True, False))
        return first, second

    processes = tuple(ProcessTiming(n, tuple(map(block, range(3))), (), 1.0, 0.0, 0.0, 1.0) for n in range(2))
    return TimingEvidence(processes, (0.02,) * 3, 1, quick=False, repeats=4)


class FakeJudge:
    """Says what the scenario says, in the order and with the pulling of a bench."""

    def __init__(self, scenario: dict[str, Any], progress: Any, out: Path) -> None:
        self.scenario, self.progress, self.out = scenario, progress, out
        self.world = certs_world() if scenario.get("proven") else None

    def judge(self, record: RecordPlan, gate: str) -> GateResult:
        """Judge like a bench: an earlier gate that does not hold leaves the later ones not run."""
        told = self.scenario["records"][record.id]
        for name in RECORD_GATES[: RECORD_GATES.index(gate)]:
            if name in told and not isinstance(codec.from_json(Verdict, told[name]), Pass):
                return GateResult(record.id, gate, NotRun(gate, name))
        if fault := self.scenario.get("faults", {}).get(f"{record.id}|{gate}"):
            raise getattr(errors, fault)(f"{fault} of {gate}", hint="mend it")
        if gate in self.scenario.get("bugs", ()):
            raise RuntimeError("a bug of the judge")
        self.progress.note(f"judging {gate}")
        verdict = codec.from_json(Verdict, told[gate]) if gate in told else Pass(gate, NUMBERS.get(gate, ()))
        asked = gate == "net_win" and record.id in self.scenario.get("proven", ())
        kept = self._timed(record) if gate == "net_win" else None
        proven = self._record(record, kept) if asked and isinstance(verdict, Pass) else None
        unkept = self.scenario.get("unkept", "") if proven else ""
        told = GateResult(record.id, gate, verdict, SEATS, (), 0.5, None if unkept else proven, ((1.3,),), unkept)
        return replace(told, evidence=kept)

    def _timed(self, record: RecordPlan) -> FileDigest | None:
        """Keep pairs at the speed that the scenario gives a record under ``timed``."""
        speed = self.scenario.get("timed", {}).get(record.id)
        return keep(self.out, record.id, pairs(speed), Pass("net_win"), output="values") if speed else None

    def _record(self, record: RecordPlan, kept: FileDigest | None) -> Record:
        assert self.world is not None
        bound = (FileDigest(BOUND, kept.sha256),) if kept else self.world.RECORD.evidence
        return replace(self.world.RECORD, key=record.key, evidence=bound)

    def union(self, plan: UnionPlan) -> UnionResult:
        """Return the scenario's verdict; without one the members that are proven pass together."""
        told = self.scenario.get("unions", {}).get(plan.name)
        names = sorted(record.id for record in plan.records if record.id in self.scenario.get("proven", ()))
        verdict = codec.from_json(Verdict, told) if told else NotRun("union", "no record of it was certified")
        if told or not names:
            return UnionResult(plan.name, verdict)
        assert self.world is not None
        proven = PlanRecord(
            plan.name, tuple(names), tuple(names), {}, self.world.END_TO_END, self.world.HOST, self.world.DEVICE,
            self.world.SOFTWARE, 1, 7, self.world.CHECKER,
        )  # fmt: skip
        members = tuple(Member(name, SEATS, 1.31) for name in names)
        return UnionResult(plan.name, Pass("union", NUMBERS["net_win"]), members, proven=proven)

    def close(self) -> None:
        """Do nothing."""


def _scenario() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(Path(os.environ.get("FRT_SCENARIO", "scenario.json")).read_text(encoding="utf-8"))
    return read


def pytest_frt_plan() -> RunPlan:
    """Plan the records of the scenario."""
    scenario = _scenario()
    stood_in = scenario.get("emulated", ())
    records = tuple(planned(name, emulated=name in stood_in) for name in scenario["records"])
    keys = [record.key for record in records if record.emulated]
    away = tuple(dict.fromkeys(key.cell.device for key in keys))
    there = tuple(Elsewhere(key, "acme/none", emulated=True) for key in keys)
    absent = tuple(NotSupported(Cell.parse(cell), why) for cell, why in scenario.get("absent", {}).items())
    return RunPlan(records, unions_of(records), absent, elsewhere=there, away=away)


def pytest_frt_judge(progress: Any, settings: RunConfig) -> FakeJudge:
    """Judge by the scenario."""
    return FakeJudge(_scenario(), progress, Path(settings.out))
