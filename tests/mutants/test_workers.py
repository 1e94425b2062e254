"""A shipped impl and a mutant of it through real workers: the gate says there what it says in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from pytest_frt.contracts.verdict import NotRun, Pass, Refusal, Verdict
from pytest_frt.devices.probe import machine_facts
from pytest_frt.lab import locks
from pytest_frt.registry import Provider, Registry
from pytest_frt.run.bench import Bench
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.plan import RecordPlan, plan_run
from pytest_frt.run.progress import Silent

SOURCE: Final = """
from functools import partial
import torch
from torch.nn import functional as F
from pytest_frt.impls._shared.structure_binders import bind_two_layer
from pytest_frt.sdk import Impl

IMPL = Impl(
    name="{name}", structure="vision_ffn", version=1, schemes=("w16a32",), kernel="pytest-frt/frt-cpu",
    rows={{"w16a32": (1, 64)}},
)

def bind(seat, scales, kernel):
    part = bind_two_layer(IMPL, seat, scales, kernel, {{"w16a32": "fp16_linear"}})
    {fault}
    return part
"""
FAULTS: Final = {
    "sound": ("pass", ""),
    "other_gelu": ('part._act = partial(F.gelu, approximate="tanh")', "scheme"),
}


def settings(folder: Path) -> RunConfig:
    include = {"host": ("minilm",), "structure": ("vision_ffn",), "phase": ("denoise",), "impl": tuple(FAULTS)}
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
        kernel=(),
        json=None,
        threads=1,
        comparison=False,
    )


def judged(bench: Bench, record: RecordPlan) -> Verdict:
    """Return what parity says, or the gate before it that did not pass."""
    before, parity = (bench.judge(record, gate).verdict for gate in ("seats", "parity"))
    return before if isinstance(parity, NotRun) else parity


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Verdict]]:
    folder = tmp_path_factory.mktemp("mutants")
    (folder / "impls" / "vision_ffn").mkdir(parents=True)
    for name, (fault, _) in FAULTS.items():
        file = folder / "impls" / "vision_ffn" / f"{name}.py"
        file.write_text(SOURCE.format(name=name, fault=fault), encoding="utf-8")
    found = Registry.of([Provider("impls", "", "planted 1.0", folder / "impls")])
    registry = replace(Registry.load(), impls=found.impls)
    plan, config = plan_run(settings(folder), registry, machine_facts()), settings(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "shared_folder", lambda: folder)  # nobody's timing waits for these jobs
        bench = Bench(config, registry, plan, Silent(), environ=dict(os.environ))
    try:
        yield {record.key.cell.impl: judged(bench, record) for record in plan.records}
    finally:
        bench.close()


@pytest.mark.parametrize("name", FAULTS)
def test_worker_leaves_evidence_that_says_the_same(verdicts: dict[str, Verdict], name: str) -> None:
    word = FAULTS[name][1]
    verdict = verdicts[name]
    assert isinstance(verdict, Refusal if word else Pass), verdict
    assert getattr(verdict, "reason", "") == word
