"""Cold records: caches are emptied after the values are drawn and before the region, which is one execution."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_frt.contracts.timing import TimingEvidence
from pytest_frt.errors import EvidenceError
from pytest_frt.lab import cold, timing_worker
from pytest_frt.lab.cold import FACTOR, Flush, last_level_bytes
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.lab.timing_group import Ask, TimingGroup
from pytest_frt.lab.timing_worker import TimingWorker
from tests.lab.pretended import Fleet, Silent, Witness


def machine(folder: Path, *sizes: str) -> Path:
    for index, size in enumerate(sizes):
        (folder / f"index{index}").mkdir()
        (folder / f"index{index}" / "size").write_text(f"{size}\n")
    return folder


@pytest.mark.parametrize(
    ("sizes", "found"),
    [(("48K", "32K", "2048K", "266240K"), 266240 << 10), (("32K", "1M"), 1 << 20), (("512K", "odd"), 512 << 10)],
    ids=["server", "megabytes", "one_unreadable"],
)
def test_last_level_is_the_largest_cache(tmp_path: Path, sizes: tuple[str, ...], found: int) -> None:
    assert last_level_bytes("cpu", machine(tmp_path, *sizes)) == found


@pytest.mark.parametrize("sizes", [(), ("0K",), ("?",)], ids=["no_cache", "zero", "no_size"])
def test_machine_that_does_not_say_has_no_cold_records(tmp_path: Path, sizes: tuple[str, ...]) -> None:
    with pytest.raises(EvidenceError, match="cold caches cannot be made"):
        last_level_bytes("cpu", machine(tmp_path, *sizes))


def test_flush_touches_twice_the_last_level_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "last_level_bytes", lambda _: 1 << 16)
    flush = Flush("cpu")
    flush.run()
    assert flush.nbytes == FACTOR << 16
    assert bool((flush._buffer == 2).all())


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the workers of this test did, in order."""
    done: list[str] = []

    def run(content: int) -> torch.Tensor:
        done.append(f"run {content}")
        return torch.zeros(4)

    monkeypatch.setattr(timing_worker, "Flush", lambda _: SimpleNamespace(run=lambda: done.append("flush")))
    arms = SimpleNamespace(
        names=("base",),
        seats=lambda _: 0,
        switch=lambda *_: done.append("switch"),
        calls=lambda *said: done.append("draw") or [partial(run, said[3] + turn) for turn in range(said[4])],
    )
    monkeypatch.setattr(timing_worker, "Arms", lambda *_: arms)
    return done


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ("hot", ["switch", "draw", "run 9", "draw", "run 7"]),
        ("cold", ["switch", "draw", "run 9", "draw", "flush", "run 7"]),
    ],
)
def test_arm_settles_on_other_values_and_nothing_runs_between_the_flush_and_the_region(
    toy: Any, steps: list[str], monkeypatch: pytest.MonkeyPatch, cache: str, expected: list[str]
) -> None:
    monkeypatch.setattr(timing_worker.gc, "freeze", lambda: None)
    threads = torch.get_num_threads()
    worker = TimingWorker(replace(toy.job("faster"), cache=cache))
    try:
        worker.load(["base"])
        worker.arm("base", 0, "")
        worker.settle("decode", 0, 1, 9)
        worker.draw("decode", 0, 1, 7)
        worker.go()
    finally:
        torch.set_num_threads(threads)
    assert steps == expected


@pytest.mark.parametrize(("cache", "repeats"), [("hot", 7), ("cold", 1)])
def test_cold_region_is_one_execution(
    toy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str, repeats: int
) -> None:
    plan = TimingPlan(processes=1, looks=(1,), scouts=1)
    lab: Any = TimingLab(tmp_path, environ={}, lock=DeviceLock("cpu", tmp_path), plan=plan, resident=True)
    monkeypatch.setattr(lab, "fleet", lambda _: Fleet())
    monkeypatch.setattr(lab, "witnesses", Witness())
    monkeypatch.setattr(lab, "repeats", lambda *_: 7)
    with TimingGroup(lab, replace(toy.job("faster"), cache=cache)) as group:
        got = group.collect(Ask("faster", lambda _: None, random.Random(0), Silent()))  # noqa: S311 (no secret)
    assert isinstance(got, TimingEvidence)
    assert got.repeats == repeats
