"""One bench for all planted impls: a real host, a real kernel, real workers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.verdict import Outcome
from pytest_frt.devices.probe import machine_facts
from pytest_frt.lab import launch, locks
from pytest_frt.registry import Provider, Registry
from pytest_frt.rules.fold import RECORD_GATES, Folded, fold
from pytest_frt.run.bench import Bench
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.kernel_words import LocalBuild
from pytest_frt.run.plan import RecordPlan, plan_run
from pytest_frt.run.progress import Silent
from pytest_frt.run.results import GateResult
from pytest_frt.spec.modules import load_file

HERE = Path(__file__).parent
catalogue: Any = load_file(HERE / "catalogue.py")
bare: Any = load_file(HERE / "bare.py")
HOSTS = {"decoder_ffn": "qwen3", "linear_proj": "bare"}
SECRETS = {"FRT_SIGN_KEY": "in the environment", "HF_TOKEN": "secret"}


TALLY: dict[str, bool] = {}
"""Planted impl to whether it was refused, of those that were judged; sound ones are no part of it."""
EXECUTED: list[str] = []
"""Files whose code this process executed while it judged."""
_JUDGING: list[bool] = []


def _listen(event: str, args: tuple[Any, ...]) -> None:
    if _JUDGING and event == "exec":
        EXECUTED.append(getattr(args[0], "co_filename", "a string"))


sys.addaudithook(_listen)  # it stays for the life of the process, and hears nothing unless a gate is being judged


def settings(folder: Path) -> RunConfig:
    """Return the settings of a run without timing on tiny hosts."""
    impls = tuple(catalogue.JUDGED)
    include = {"host": tuple(HOSTS.values()), "structure": tuple(HOSTS), "phase": ("decode",), "impl": impls}
    return RunConfig(
        selection=Selection(include),
        forms=("eager",),
        size="tiny",
        checkpoint=None,
        out=str(folder / "out"),
        cache=str(folder / "cache"),
        seed=11,
        sign_key=str(folder / "key.pem"),
        issuer="tests",
        quick=False,
        timing=False,
        kernel=(LocalBuild(str(folder / "kernel"), "pytest-frt/frt-cpu"),),
        json=None,
        threads=1,
        comparison=False,
    )


@dataclass
class Trial:
    """Judges planted impls by name.

    Attributes:
        bench: The bench of the module.
        records: Impl name to record.
        folder: Where the planted impls lie.
        sources: Files that a planted impl may spoil, with their bytes.
        executed: Files whose code this process executed while it judged.
        began: When the run began, seconds since the epoch.
    """

    bench: Bench
    records: dict[str, RecordPlan]
    folder: Path
    sources: dict[Path, bytes]
    executed: list[str]
    began: float = field(default_factory=time.time)

    @property
    def root(self) -> Path:
        """The folder around the run."""
        return self.folder.parent

    def tidy(self) -> None:
        """Undo what a planted impl did to sources: each is judged on what was there first."""
        for file in (one for place in places(self.root).values() for one in place.rglob("*") if one.is_file()):
            if file not in self.sources:
                file.unlink()
        for file, content in self.sources.items():
            if file.read_bytes() != content:
                file.write_bytes(content)

    def gates(self, name: str) -> dict[str, GateResult]:
        """Judge every gate of one impl."""
        with self.listening():
            return {gate: self.bench.judge(self.records[name], gate) for gate in RECORD_GATES}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note what this process executes while the block runs."""
        _JUDGING.append(True)
        try:
            yield
        finally:
            _JUDGING.pop()

    def outcome(self, name: str) -> Folded:
        """Return what a person reads of one impl, and count it."""
        found = fold([result.verdict for result in self.gates(name).values()])
        TALLY[name] = found.outcome is not Outcome.CERTIFIED and not found.correct
        return found

    def said(self, name: str) -> str:
        """Return what the candidate of one impl printed."""
        tried = self.bench._settle(self.records[name]).tried
        assert tried is not None
        return (tried.folder / "stdout.txt").read_text(errors="replace")


def places(folder: Path) -> dict[str, Path]:
    """Return the folders of sources around a run, all of them copies."""
    return {
        "kernel": folder / "kernel",
        "structure": folder / "catalog" / "linear_proj",
        "host": folder / "bare",
        "impls": folder / "impls",
    }


def lay_out(folder: Path, repository: Path) -> Registry:
    """Write impls, bare host, and copies of what a planted impl may spoil; return a registry of them."""
    at = places(folder)
    for name, one in catalogue.JUDGED.items():
        (at["impls"] / one.structure).mkdir(parents=True, exist_ok=True)
        (at["impls"] / one.structure / f"{name}.py").write_text(one.source(name))
    told = {**at, "out": folder / "out", "key": folder / "key.pem"}
    where = json.dumps({name: str(path) for name, path in told.items()})
    (at["impls"] / "linear_proj" / catalogue.WHERE).write_text(where)
    # The judge's process must never have held the key: nobody could then find it there.
    subprocess.run(["dd", "if=/dev/urandom", f"of={told['key']}", "bs=64", "count=1", "status=none"], check=True)  # noqa: S607
    bare.write(folder)
    shutil.copytree(repository / "csrc" / "frt_cpu" / "build", at["kernel"])
    shutil.copytree(repository / "catalog" / "linear_proj", at["structure"])
    found = Registry.of(
        [
            Provider("impls", "", "planted 1.0", at["impls"]),
            Provider("catalog", "", "planted 1.0", folder / "catalog"),
        ]
    )
    assert found.broken == ()
    known = Registry.load()
    structures = {**known.structures, **found.structures}
    return replace(known, impls=found.impls, structures=structures).with_host(at["host"])


@pytest.fixture(scope="session")
def trial(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("adversaries")
    registry, config = lay_out(folder, repository), settings(folder)
    plan = plan_run(config, registry, machine_facts())
    records = tuple(one for one in plan.records if HOSTS[one.key.cell.structure] == one.key.cell.host)
    sources = {file: file.read_bytes() for place in places(folder).values() for file in place.rglob("*.*")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "shared_folder", lambda: folder)  # nobody's timing waits for these jobs
        # Compiling a seat in every worker would double the time, and no planted impl is about that.
        patch.setattr(launch, "FIXED", {**launch.FIXED, "TORCHDYNAMO_DISABLE": "1"})
        bench = Bench(config, registry, replace(plan, records=records), Silent(), environ={**os.environ, **SECRETS})
    impls = places(folder)["impls"]
    try:
        yield Trial(bench, {one.key.cell.impl: one for one in records}, impls, sources, EXECUTED)
    finally:
        bench.close()


@pytest.fixture
def hurried(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that shortens the time limit of jobs, once the witness has run."""

    def limit(seconds: float) -> None:
        for host in {record.host.name: record.host for record in trial.records.values()}.values():
            trial.bench.witness(host)
        monkeypatch.setattr(trial.bench._shop.client, "_limit_s", seconds)

    return limit


@pytest.fixture
def tally() -> dict[str, bool]:
    """Return what the summary counts."""
    return TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many of the planted impls that were judged were refused."""
    if TALLY:
        terminalreporter.write_line(f"adversaries: {sum(TALLY.values())} of {len(TALLY)} refused")
