"""A fork server shared by the tests of this folder, whose jobs are scripts the tests write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, WitnessJob
from pytest_frt.lab.client import ForkedJob, LabClient
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.spec.modules import load_file

SCRIPTED = """
from pathlib import Path

def run(job):
    exec(Path(job.host.folder, "do.py").read_text(), {"job": job, "out": Path(job.out)})
"""
SECRETS = {"FRT_SIGN_KEY": "/k", "HF_TOKEN": "t", "SIGNING_KEY": "k", "PYTHONPATH": "/x"}

ScriptedJob = Callable[[str], WitnessJob]


@pytest.fixture(scope="session")
def targets(tmp_path_factory: pytest.TempPathFactory) -> dict[type[ForkedJob], str]:
    """Return what a client needs to run scripted jobs."""
    target = tmp_path_factory.mktemp("target") / "scripted.py"
    target.write_text(SCRIPTED)
    return {WitnessJob: str(target)}


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, targets: dict[type[ForkedJob], str]) -> Iterator[LabClient]:
    """Return a client whose server has torch and runs scripted jobs for at most 0.8 seconds each."""
    environ = {**os.environ, **SECRETS}
    folder = tmp_path_factory.mktemp("lab")
    lock = DeviceLock("cpu", folder)
    with LabClient(folder, environ=environ, threads=1, time_limit_s=0.8, lock=lock, targets=targets) as client:
        yield client


@pytest.fixture
def light(tmp_path: Path, targets: dict[type[ForkedJob], str]) -> LabClient:
    """Return a client of its own whose server imports no torch; the test enters it."""
    lock = DeviceLock("cpu", tmp_path)
    return LabClient(tmp_path, environ=os.environ, threads=1, preload=(), lock=lock, targets=targets)


@pytest.fixture
def scripted(tmp_path_factory: pytest.TempPathFactory) -> ScriptedJob:
    """Return a function that makes a job of a script; ``job`` and ``out`` are its globals."""

    def make(script: str) -> WitnessJob:
        folder = tmp_path_factory.mktemp("job")
        (folder / "do.py").write_text(script)
        host = HostRef("toy", str(folder), BuildRequest("tiny", 0, None, "cpu", str(folder)), 1)
        return WitnessJob(host, (), {}, 0, 0, str(folder / "out"))

    return make


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Any:
    """Return the toy host with its impls, see toy.py."""
    module = load_file(Path(__file__).with_name("toy.py"))
    return module.Toy(tmp_path_factory.mktemp("toys"), repository)
