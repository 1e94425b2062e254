"""Evidence is complete or absent, made once, capped, and survives a full disk."""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, WitnessJob
from pytest_frt.errors import EvidenceError, StorageFault
from pytest_frt.lab.reports import CrashedJob, Done, Faulted, JobReport
from pytest_frt.lab.store import EvidenceStore


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def job(tmp_path: Path, seed: int = 0) -> WitnessJob:
    host = HostRef("toy", str(tmp_path), BuildRequest("tiny", 0, None, "cpu", ""), 1)
    return WitnessJob(host, (), {}, 8, seed, "")


class Runner:
    """Writes one file of ``size`` bytes and reports; counts how often."""

    def __init__(self, size: int = 3, report: JobReport | None = None) -> None:
        self.size, self.report, self.calls = size, report, 0

    def __call__(self, job: WitnessJob) -> JobReport:
        self.calls += 1
        Path(job.out, "witness.json").write_bytes(b"x" * self.size)
        return self.report or Done(job.out, 0.1)


def test_same_job_is_run_once_whatever_asks(tmp_path: Path) -> None:
    run = Runner()
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: EvidenceStore(tmp_path).obtain(job(tmp_path), run), range(4)))
    assert run.calls == 1
    assert len({stored.path for stored in got}) == 1
    assert (got[0].path / "witness.json").read_bytes() == b"xxx"
    assert got[0].report == Done(str(got[0].path), 0.1)


def test_digest_covers_every_field_but_the_folder(tmp_path: Path) -> None:
    store, one = EvidenceStore(tmp_path), job(tmp_path)
    assert store.digest(one) == store.digest(replace(one, out="/elsewhere"))
    assert store.digest(one) != store.digest(replace(one, seed=1))


def test_crash_is_kept_as_evidence(tmp_path: Path) -> None:
    run = Runner(report=CrashedJob(-11, "killed by SIGSEGV", ("last words",)))
    store = EvidenceStore(tmp_path)
    assert store.obtain(job(tmp_path), run) == store.obtain(job(tmp_path), run)
    assert run.calls == 1


def test_evidence_over_the_cap_is_refused_and_removed(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="toy left 11 bytes, over the cap of 10"):
        EvidenceStore(tmp_path, cap_bytes=10).obtain(job(tmp_path), Runner(11))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_interrupted_job_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(job: WitnessJob) -> JobReport:
        Path(job.out, "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EvidenceStore(tmp_path).obtain(job(tmp_path), interrupted)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.parametrize("place", ["mkdtemp", "report", "rename", "worker"])
def test_full_disk_names_path_and_space_and_keeps_earlier_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    store = EvidenceStore(tmp_path)
    earlier = store.obtain(job(tmp_path), Runner())

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = Runner()
    if place == "worker":
        run = Runner(report=Faulted("STORAGE", "out is full", ""))
    else:
        target = {"mkdtemp": "tempfile.mkdtemp", "report": "pathlib.Path.write_text", "rename": "pathlib.Path.rename"}
        monkeypatch.setattr(target[place], full)
    with pytest.raises(StorageFault, match=rf"{tmp_path}.* full.*\d+ bytes free"):
        store.obtain(job(tmp_path, seed=1), run)
    monkeypatch.undo()
    assert store.obtain(job(tmp_path), Runner()) == earlier
    assert isinstance(store.obtain(job(tmp_path, seed=1), Runner()).report, Done)


def test_crash_on_a_full_disk_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, 7))
    with pytest.raises(StorageFault, match="7 bytes free"):
        EvidenceStore(tmp_path).obtain(job(tmp_path), Runner(report=CrashedJob(1, "exit status 1", ())))


def test_damaged_evidence_is_named(tmp_path: Path) -> None:
    stored = EvidenceStore(tmp_path).obtain(job(tmp_path), Runner())
    (stored.path / "report.json").write_text("{")
    with pytest.raises(EvidenceError, match=stored.path.name):
        EvidenceStore(tmp_path).obtain(job(tmp_path), Runner())
