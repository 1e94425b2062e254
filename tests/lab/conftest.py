"""A fork server shared by the tests of this folder, whose jobs are scripts the tests write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_frt.contracts.host import BuildRequest
from pytest_frt.contracts.job import HostRef, WitnessJob
from pytest_frt.lab.client import LabClient

SCRIPTED = """
from pathlib import Path

def run(job):
    exec(Path(job.host.folder, "do.py").read_text(), {"job": job, "out": Path(job.out)})
"""
SECRETS = {"FRT_SIGN_KEY": "/k", "HF_TOKEN": "t", "SIGNING_KEY": "k", "PYTHONPATH": "/x"}

ScriptedJob = Callable[[str], WitnessJob]


def host_ref(folder: Path, *, seed: int = 0, threads: int = 1) -> HostRef:
    return HostRef("toy", str(folder), BuildRequest("tiny", seed, None, "cpu", str(folder)), threads)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabClient]:
    """Return a client whose server runs scripted jobs for at most 1.5 seconds each."""
    folder = tmp_path_factory.mktemp("lab")
    target = folder / "scripted.py"
    target.write_text(SCRIPTED)
    environ = {**os.environ, **SECRETS}
    with LabClient(folder, environ=environ, threads=1, time_limit_s=1.5, targets={WitnessJob: str(target)}) as client:
        yield client


@pytest.fixture
def scripted(tmp_path_factory: pytest.TempPathFactory) -> ScriptedJob:
    """Return a function that makes a job of a script; ``job`` and ``out`` are its globals."""

    def make(script: str) -> WitnessJob:
        folder = tmp_path_factory.mktemp("job")
        (folder / "do.py").write_text(script)
        return WitnessJob(host_ref(folder), (), (), 0, 0, str(folder / "out"))

    return make
