"""Time a host against itself through the whole attach path, in fresh processes, and keep every pair.

The candidate arm attaches ``aa_identity`` to every linear of the host: seats are bound, attached and detached as those
of any implementation, and compute what the host computes. Writes ``results/aa_<host>_<phase>.json.gz``; with
``--runs`` also judges that many whole runs and writes ``results/aa_<host>_<phase>_runs.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import aa_data
import torch

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, TimingJob, UnitRef
from pytest_frt.contracts.timing import ProcessTiming, TimingEvidence
from pytest_frt.contracts.verdict import Crashed
from pytest_frt.errors import EvidenceError
from pytest_frt.lab.client import LabClient
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_group import Ask, TimingGroup
from pytest_frt.registry import Registry
from pytest_frt.run import clocking, proof
from pytest_frt.run.progress import Progress
from pytest_frt.run.stages import Stages
from pytest_frt.run.workshop import PRELOAD
from pytest_frt.seat.noarch import build_noarch, read_project
from pytest_frt.settings import default_cache
from pytest_frt.spec import codec
from pytest_frt.spec.tree import tree_digest, tree_files

ARM: Final = "identity"
AGAIN: Final = "again"
"""What the second base of a pair is called in a recording."""
RESULTS: Final = Path(__file__).with_name("results")
IDENTITY: Final = Path(__file__).parent / "linear_proj" / "aa_identity.py"
PHASES: Final = {"minilm": "denoise"}
"""Regime that is timed where it is not ``decode``."""
BUILD: Final = """
[general]
name = "aa-identity"
version = 1
edition = 5
license = "MIT"
backends = ["cpu"]
[general.hub]
repo-id = "pytest-frt/aa-identity"
[torch-noarch]
"""


@dataclass(frozen=True, slots=True)
class Host:
    """What is timed against itself.

    Attributes:
        ref: The host.
        seats: File of its seats.
        phase: Row regime.
        output: ``values`` or ``distribution``.
    """

    ref: HostRef
    seats: str
    phase: str
    output: str


class Printed:
    """Says on a terminal what is going on."""

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, flush=True)

    def step(self, stage: str, done: int, total: int, detail: str) -> None:
        """Print a step."""
        print(f"{stage} {done} of {total} {detail}", flush=True)


def identity(folder: Path, registry: Registry) -> UnitRef:
    """Return the identity over every linear; its kernel, which holds nothing, is built below ``folder``."""
    sources = folder / "kernel" / "torch-ext" / "aa_identity"
    sources.mkdir(parents=True, exist_ok=True)
    (sources / "__init__.py").write_text("")
    (folder / "kernel" / "build.toml").write_text(BUILD)
    (variant,) = build_noarch(read_project(folder / "kernel"), folder / "kernel" / "build")
    return UnitRef(
        structure="linear_proj",
        structure_folder=str(registry.structure("linear_proj").folder),
        impl=IDENTITY.stem,
        impl_file=str(IDENTITY),
        scheme="none",
        scheme_file=str(registry.scheme("none").file),
        kernel_repo="pytest-frt/aa-identity",
        kernel_path=str(variant),
        kernel_digest=tree_digest(tree_files(variant)),
        rows=(1, 65536),
    )


def find_seats(name: str, phase: str, folder: Path, registry: Registry, progress: Progress) -> Host:
    """Run the host's witness with linears as the only structure, so that each of them becomes a seat.

    Raises:
        EvidenceError: the host itself does not live.
    """
    spec, threads = registry.host(name).spec, os.cpu_count() or 1
    size = "real" if spec.weights.get("real") == "trained" else spec.sizes[0]
    request = BuildRequest(size=size, seed=0, checkpoint=None, device="cpu", cache=str(default_cache()))
    ref = HostRef(name, spec.folder, request, threads)
    linears = [str(registry.structure("linear_proj").folder)]
    with LabClient(folder / "lab", environ=os.environ, threads=threads, preload=PRELOAD, time_limit_s=900) as client:
        found = Stages(client, folder / "jobs", 0, progress).witness(ref, {phase: ()}, linears)
    if isinstance(found, Crashed):
        raise EvidenceError(found.detail)
    return Host(ref, found.seats_file, phase, found.evidence.host_output)


def job_of(host: Host, unit: UnitRef) -> TimingJob:
    """Return the timing job of one host and the identity."""
    return TimingJob(
        host=host.ref,
        arms={"base": (), ARM: (unit,)},
        seats=host.seats,
        scales={},
        phases=(host.phase,),
        form="eager",
        base_form="eager",
        states=clocking.STATES,
        out="",
    )


def collect(lab: TimingLab, job: TimingJob, progress: Progress, seed: int) -> TimingEvidence:
    """Return the units of every process of the lab's plan, each process fresh and ended before the next is timed.

    Raises:
        EvidenceError: a process was lost.
    """
    rng = random.Random(seed)  # noqa: S311 (draws orders, guards no secret)
    with TimingGroup(lab, job) as group:
        got = group.collect(Ask(ARM, lambda _: None, rng, progress))
    if isinstance(got, Crashed):
        raise EvidenceError(got.detail)
    return got


def as_units(timing: TimingEvidence) -> TimingEvidence:
    """Return evidence whose units are its null pairs, two and two: base against base, attached and detached between."""

    def process(one: ProcessTiming) -> ProcessTiming:
        pairs = [replace(pair, candidate=replace(pair.candidate, arm=AGAIN)) for pair in one.null]
        return replace(one, blocks=tuple(zip(pairs[::2], pairs[1::2], strict=True)), null=())

    return replace(timing, processes=tuple(map(process, timing.processes)))


def judge_runs(host: Host, unit: UnitRef, runs: int, folder: Path, progress: Progress) -> list[dict[str, object]]:
    """Judge whole runs of the gate, each a first attempt; return what each came to."""
    told = []
    clock = clocking.Clock(folder, folder, os.environ, quick=False, seed=0, progress=progress)
    course = clocking.Course(host.ref, host.seats, (host.phase,), "eager", host.output)
    try:
        for run in range(runs):
            # Each run has a name of its own: attempts are counted by name. The witnesses stay.
            name = f"aa-{host.ref.name}-{run}"
            verdict, _ = clock.judge(course, [clocking.Entrant(name, ARM, host.phase, (unit,), "")])[name]
            told.append({"run": run, "verdict": codec.to_json(verdict)})
            progress.note(f"run {run}: {type(verdict).__name__} {getattr(verdict, 'detail', '')}")
    finally:
        clock.close()
    return told


def about(host: Host, lab: TimingLab) -> dict[str, object]:
    """Say where and how it was timed."""
    facts = asdict(proof.device_facts("cpu", host.ref.threads))
    size = host.ref.request.size
    plan = {"processes": lab.plan.processes, "units": lab.plan.looks[-1]}
    return {
        "host": host.ref.name, "size": size, "phase": host.phase, "device": facts, "software": proof.software(), **plan
    }  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Collect, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True, help="gemma3_270m, minilm, or any other registered host")
    parser.add_argument("--phase", help="row regime; default: decode, or the host's own")
    parser.add_argument("--arm", choices=("base", "identity"), default="base", help="what is timed against the base")
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--runs", type=int, default=0, help="whole runs to judge as well")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    said = parser.parse_args(arguments)
    phase, progress, registry = said.phase or PHASES.get(said.host, "decode"), Printed(), Registry.load()
    stem = f"aa_{said.host}_{phase}" if said.arm == "base" else f"aa_identity_{said.host}_{phase}"
    with tempfile.TemporaryDirectory(prefix="frt-aa-") as made, torch.no_grad():
        folder = Path(made)
        unit, host = identity(folder, registry), find_seats(said.host, phase, folder, registry, progress)
        looks, null = ((1,), 2 * said.units) if said.arm == "base" else ((said.units,), TimingPlan().null_pairs)
        plan = TimingPlan(processes=said.processes, looks=looks, null_pairs=null)
        if said.processes:
            with TimingLab(folder / "timing", environ=os.environ, plan=plan, resident=False) as lab:
                timing = collect(lab, job_of(host, unit), progress, said.seed)
                timing = as_units(timing) if said.arm == "base" else timing
                aa_data.write(said.out / f"{stem}.json.gz", aa_data.Recording(about(host, lab), timing))
        if said.runs:
            told = judge_runs(host, unit, said.runs, folder, progress)
            (said.out / f"{stem}_runs.json").write_text(json.dumps({"schema": 1, "runs": told}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
