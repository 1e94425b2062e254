"""One bench for all planted impls: a real host, a real kernel, real workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.devices.probe import machine_facts
from pytest_frt.lab import locks
from pytest_frt.registry import Provider, Registry
from pytest_frt.rules.fold import RECORD_GATES, Folded, fold
from pytest_frt.run.bench import Bench
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.plan import RecordPlan, plan_run
from pytest_frt.run.progress import Silent
from pytest_frt.run.results import GateResult
from pytest_frt.spec.modules import load_file

planted: Any = load_file(Path(__file__).with_name("planted.py"))


EXECUTED: list[str] = []
"""Files whose code this process executed while it judged."""
_JUDGING: list[bool] = []


def _listen(event: str, args: tuple[Any, ...]) -> None:
    if _JUDGING and event == "exec":
        EXECUTED.append(getattr(args[0], "co_filename", "a string"))


sys.addaudithook(_listen)  # it stays for the life of the process, and hears nothing unless a gate is being judged


def settings(folder: Path) -> RunConfig:
    """Return the settings of a run without timing on a tiny host."""
    include = {"host": ("qwen3",), "structure": ("decoder_ffn",), "phase": ("decode",), "impl": tuple(planted.ALL)}
    return RunConfig(
        selection=Selection(include),
        forms=("eager",),
        size="tiny",
        checkpoint=None,
        out=str(folder / "out"),
        cache=str(folder / "cache"),
        seed=11,
        sign_key=None,
        issuer="tests",
        quick=False,
        timing=False,
        kernel=None,
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
        executed: Files whose code this process executed while it judged.
    """

    bench: Bench
    records: dict[str, RecordPlan]
    folder: Path
    executed: list[str]

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
        """Return what a person reads of one impl."""
        return fold([result.verdict for result in self.gates(name).values()])

    def said(self, name: str) -> str:
        """Return what the candidate of one impl printed."""
        tried = self.bench._settle(self.records[name]).tried
        assert tried is not None
        return (tried.folder / "stdout.txt").read_text(errors="replace")


@pytest.fixture(scope="session")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("adversaries")
    impls = folder / "impls"
    (impls / "decoder_ffn").mkdir(parents=True)
    for name, one in planted.ALL.items():
        (impls / "decoder_ffn" / f"{name}.py").write_text(one.source(name))
    found = Registry.of([Provider("impls", "", "planted 1.0", impls)])
    assert found.broken == ()
    registry = replace(Registry.load(), impls=found.impls)
    config = settings(folder)
    plan = plan_run(config, registry, machine_facts())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "shared_folder", lambda: folder)  # nobody's timing waits for these jobs
        bench = Bench(config, registry, plan, Silent(), environ=os.environ)
    try:
        yield Trial(bench, {record.key.cell.impl: record for record in plan.records}, impls, EXECUTED)
    finally:
        bench.close()


@pytest.fixture
def hurried(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that shortens the time limit of jobs, once the witness has run."""

    def limit(seconds: float) -> None:
        trial.bench.witness(next(iter(trial.records.values())).host)
        monkeypatch.setattr(trial.bench._client, "_limit_s", seconds)

    return limit
