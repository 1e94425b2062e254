"""A host against itself: the identity attaches and changes nothing, recordings survive, and luck does not activate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import aa_collect
import aa_data
import aa_resample
import noise_model
import numpy as np
import pytest
import torch

from pytest_frt.contracts.timing import ProcessTiming, TimedPair, TimedSample, TimingEvidence
from pytest_frt.lab.arms import Arms
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.timing import TimingLab, TimingPlan
from pytest_frt.measure.timing import summarise
from pytest_frt.registry import Registry
from pytest_frt.run.progress import Silent

RUNS = 300


@pytest.fixture(scope="module")
def job(toy: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the job of a toy host with one plain linear, and the identity."""
    plain, folder = toy.job(), tmp_path_factory.mktemp("aa") / "toy"
    folder.mkdir()
    for file in Path(plain.host.folder).iterdir():
        if file.is_file():
            (folder / file.name).write_text(file.read_text().replace("turns = 3", "turns = 1"))
    host = aa_collect.Host(replace(plain.host, folder=str(folder)), plain.seats, "decode", "values")
    return aa_collect.job_of(host, aa_collect.identity(folder.parent, Registry.load()))


@pytest.fixture(scope="module")
def recorded(job: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimingEvidence]:
    folder = tmp_path_factory.mktemp("lab")
    plan = TimingPlan(processes=2, looks=(3,), null_pairs=2, witnesses=1, witness_blocks=1, region_s=0.002)
    lock = DeviceLock("cpu", folder)
    with TimingLab(folder, environ=os.environ, lock=lock, plan=plan, resident=False) as lab, torch.no_grad():
        yield aa_collect.collect(lab, job, Silent(), 0)


@torch.no_grad()
def test_identity_is_attached_and_returns_the_same_bits(job: Any) -> None:
    arms = Arms(job, ("base", aa_collect.ARM))
    host = next(iter(arms._stages.values())).host.model
    base = arms.calls(0, "decode", 0, 7, 1)[0]()
    plain = type(host.get_submodule("proj"))
    arms.switch(aa_collect.ARM)
    assert type(host.get_submodule("proj")) is not plain
    assert torch.equal(arms.calls(1, "decode", 0, 7, 1)[0](), base)
    arms.switch("base")
    assert type(host.get_submodule("proj")) is plain


def test_every_process_gives_every_unit(recorded: TimingEvidence) -> None:
    assert [len(process.blocks) for process in recorded.processes] == [3, 3]
    summary = summarise(recorded)
    assert 0.5 < median(ratio for process in summary.worker for ratio in process) < 2
    assert all(summary.balanced)
    assert min(summary.cosines) > 0.9999


def test_null_pairs_make_units_of_base_against_base(recorded: TimingEvidence) -> None:
    units = aa_collect.as_units(recorded)
    assert [(len(process.blocks), process.null) for process in units.processes] == [(1, ())] * 2
    assert all(summarise(units).balanced)
    slower = aa_resample.ratios(aa_resample.slowed(units, 2.0))[0] / aa_resample.ratios(units)[0]
    assert np.allclose(slower, 2.0, rtol=1e-4)


def test_recording_survives_to_the_nanosecond(recorded: TimingEvidence, tmp_path: Path) -> None:
    told = aa_data.Recording({"host": "toy"}, recorded)
    for name in ("one", "two"):
        aa_data.write(tmp_path / name, told)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = aa_data.read(tmp_path / "one")
    assert again.about == {"host": "toy"}
    pairs = zip(aa_resample.ratios(again.timing), aa_resample.ratios(recorded), strict=True)
    assert all(np.abs(one - other).max() < 1e-5 for one, other in pairs)


def test_another_schema_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: TimingEvidence) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(aa_data, "SCHEMA", 2)
        aa_data.write(tmp_path / "new", aa_data.Recording({}, recorded))
    with pytest.raises(ValueError, match="schema 2"):
        aa_data.read(tmp_path / "new")


def simulated(environment: str, *, processes: int = 16, units: int = 20, speed: float = 1.0) -> TimingEvidence:
    """Return evidence whose unit ratios are those of the noise model, told by two clocks 0.2 ms apart."""
    drawn = noise_model.simulate(environment, speed, runs=1, seed=5, processes=processes, units=units)[0]

    def block(ratio: float) -> tuple[TimedPair, TimedPair]:
        base, other = (
            TimedSample(arm, 0, s, s + 2e-4, 2e-3) for arm, s in (("base", 0.03 * ratio), ("identity", 0.03))
        )
        return TimedPair(base, other, base_first=True), TimedPair(base, other, base_first=False)

    timed = [
        ProcessTiming(index, tuple(map(block, row)), (), 1.0, 0.0, 0.0, 1.0) for index, row in enumerate(drawn.tolist())
    ]
    return TimingEvidence(tuple(timed), (0.03,) * 3, 1, quick=False)


@pytest.mark.parametrize("case", aa_resample.CASES, ids=[case.name for case in aa_resample.CASES])
def test_drawn_runs_keep_their_bounds(case: aa_resample.Case) -> None:
    outcome = aa_resample.resample(simulated("typical"), case, RUNS, 0)
    assert outcome.holds, outcome
    assert outcome.activated <= outcome.by_worker
    assert outcome.median_ratio == pytest.approx(case.slowed, rel=0.01)


def test_bias_of_the_arm_activates_and_breaks_the_bound() -> None:
    outcome = aa_resample.resample(simulated("typical", speed=1.05), aa_resample.CASES[0], RUNS, 0)
    assert not outcome.holds
    swapped = aa_resample.resample(simulated("typical", speed=0.95), aa_resample.CASES[1], RUNS, 0)
    assert not swapped.holds


def test_win_that_the_judges_clock_does_not_see_counts_for_the_worker_alone() -> None:
    def hidden(sample: TimedSample) -> TimedSample:
        return replace(sample, judge_s=0.03)

    outcome = aa_resample.resample(
        aa_data.map_samples(simulated("quiet", speed=1.1), hidden), aa_resample.CASES[0], RUNS, 0
    )
    assert (outcome.activated, outcome.by_worker) == (0, RUNS)


def test_successive_units_of_a_process_stay_together() -> None:
    matrix = np.arange(16 * 20, dtype=float).reshape(16, 20)
    (run,) = aa_resample.draw(np.random.default_rng(0), [matrix])
    assert [len(process) for process in run] == [10] * 8
    assert all(process == list(np.arange(process[0], process[0] + 10)) for process in run)
    assert all(process[0] // 20 == process[-1] // 20 for process in run)


def test_recording_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 10"):
        aa_resample.resample(simulated("quiet", units=9), aa_resample.CASES[0], 1, 0)


def test_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aa_data.write(tmp_path / "aa_toy.json.gz", aa_data.Recording({}, simulated("typical")))
    assert aa_resample.main([str(tmp_path / "aa_toy.json.gz"), "--runs", "50"]) == 0
    assert capsys.readouterr().out.count("| yes |") == 4
    assert '"activated": 0' in (tmp_path / "aa_toy.resampled.json").read_text()
