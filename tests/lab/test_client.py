"""Whatever a job does, the judge gets one closed-type report and the server goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.contracts.job import WitnessJob
from pytest_frt.errors import FrtError, KernelUnavailable, StorageFault
from pytest_frt.lab import reaper
from pytest_frt.lab.client import LabClient
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.reports import CrashedJob, Done, Faulted, Orphans, TimedOut, crashed

ScriptedJob = Callable[[str], WitnessJob]

DOUBLE_FORK = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        (out / "orphan").write_text(str(os.getpid()))
        time.sleep(60)
    os._exit(0)
os.wait()
while not (out / "orphan").is_file() or not (out / "orphan").read_text():
    time.sleep(0.01)
"""
CRASHES = {
    "exit_zero": ("import os; os._exit(0)", 0, "exit status 0 with no completion marker"),
    "exit_three": ("import os; os._exit(3)", 3, "exit status 3"),
    "sys_exit_zero": ("import sys; sys.exit(0)", 1, "exit status 1"),
    "segfault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "killed by SIGSEGV"),
    "exception": ("raise ValueError('seat 7 is missing')", 1, "exit status 1"),
    "forged_marker": (
        '(out / \'completion.json\').write_text(\'{"token": "guess", "fault": null}\'); import os; os._exit(0)',
        0,
        "exit status 0 with a completion marker that is not this run's",
    ),
    "killed_supervisor": (
        "import os, time; os.kill(os.getppid(), 9); time.sleep(9)",
        -9,
        "the supervisor of the job was killed",
    ),
}


@pytest.mark.parametrize(("script", "status", "cause"), CRASHES.values(), ids=CRASHES)
def test_crash_is_evidence_and_the_server_goes_on(
    lab: LabClient, scripted: ScriptedJob, script: str, status: int, cause: str
) -> None:
    report = lab.run(scripted(script))
    assert isinstance(report, CrashedJob)
    assert (report.status, report.cause) == (status, cause)
    assert isinstance(lab.run(scripted("(out / 'x').write_text('ran')")), Done)


def test_report_holds_the_end_of_stderr(lab: LabClient, scripted: ScriptedJob) -> None:
    report = lab.run(
        scripted("import sys; sys.stderr.write('noise\\n' * 10_000); raise ValueError('seat 7 is missing')")
    )
    assert isinstance(report, CrashedJob)
    assert report.stderr[-1] == "ValueError: seat 7 is missing"
    assert len(report.stderr) <= 40
    assert crashed("parity", report).detail.endswith("seat 7 is missing")


def test_hang_is_killed_with_all_it_started(lab: LabClient, scripted: ScriptedJob) -> None:
    job = scripted(DOUBLE_FORK + "time.sleep(60)")
    report = lab.run(job)
    assert isinstance(report, TimedOut)
    assert report.seconds == 0.8
    assert crashed("parity", report).kind == "TIMEOUT"
    assert not _alive(int(Path(job.out, "orphan").read_text()))


def test_orphan_is_named_and_killed(lab: LabClient, scripted: ScriptedJob) -> None:
    job = scripted(DOUBLE_FORK)
    report = lab.run(job)
    orphan = int(Path(job.out, "orphan").read_text())
    assert report == Orphans((orphan,))
    assert not _alive(orphan)


def test_helper_that_ends_by_itself_is_no_orphan(lab: LabClient, scripted: ScriptedJob) -> None:
    script = "import os, time\nif os.fork() == 0:\n    time.sleep(0.1)\n    os._exit(0)"
    assert isinstance(lab.run(scripted(script)), Done)


def test_error_raised_on_purpose_keeps_its_class(lab: LabClient, scripted: ScriptedJob) -> None:
    raise_it = "from pytest_frt.errors import KernelUnavailable\nraise KernelUnavailable('no build', hint='build it')"
    report = lab.run(scripted(raise_it))
    assert report == Faulted("KERNEL_UNAVAILABLE", "no build", "build it")
    assert isinstance(report.error(), KernelUnavailable)


def test_full_disk_in_a_worker_is_a_storage_fault(lab: LabClient, scripted: ScriptedJob) -> None:
    report = lab.run(scripted("open('/dev/full', 'wb', buffering=0).write(b'x')"))
    assert isinstance(report, Faulted)
    assert isinstance(report.error(), StorageFault)


def test_worker_environment_is_scrubbed(lab: LabClient, scripted: ScriptedJob) -> None:
    job = scripted("import os, json; (out / 'env').write_text('\\n'.join(f'{k}={v}' for k, v in os.environ.items()))")
    assert isinstance(lab.run(job), Done)
    seen = dict(line.split("=", 1) for line in Path(job.out, "env").read_text().splitlines())
    assert not [name for name in seen if any(word in name for word in ("SIGN", "KEY", "HF_TOKEN", "PYTHONPATH"))]
    wanted = {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    assert wanted.items() | {("OMP_NUM_THREADS", "1"), ("OMP_WAIT_POLICY", "PASSIVE")} <= seen.items()


def test_worker_is_isolated_and_forked_on_one_thread(lab: LabClient, scripted: ScriptedJob) -> None:
    job = scripted(
        "import sys, os, torch\n"
        "assert sys.flags.isolated and sys.dont_write_bytecode\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
        "held = [os.readlink(f'/proc/self/fd/{fd}') for fd in range(3, 20) if os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "assert not held, held\n"
        "torch.set_num_threads(2); torch.ones(512, 512) @ torch.ones(512, 512)\n"
    )
    report = lab.run(job)
    assert isinstance(report, Done), report


def test_only_the_culprit_falls_when_the_server_is_killed(light: LabClient, scripted: ScriptedJob) -> None:
    kill_server = (
        "import os, time\nos.kill(int(open(f'/proc/{os.getppid()}/stat').read().split()[3]), 9)\ntime.sleep(9)"
    )
    mate = "import time; time.sleep(0.3); (out / 'x').write_text('ran')"
    jobs = [scripted(mate), scripted(kill_server), scripted(mate)]
    with light as client:
        reports = client.run_all(jobs, parallel=2)
    assert [type(report) for report in reports] == [Done, CrashedJob, Done]


def test_close_leaves_nothing_running(light: LabClient, scripted: ScriptedJob) -> None:
    with light as client:
        assert isinstance(client.run(scripted("")), Done)
        assert reaper.marked(client._mark)
    assert not reaper.marked(client._mark)


def test_server_that_cannot_start_says_why(tmp_path: Path, scripted: ScriptedJob) -> None:
    lock = DeviceLock("cpu", tmp_path)
    with (
        LabClient(tmp_path, environ={}, threads=1, preload=("json.no_such_part",), lock=lock) as client,
        pytest.raises(FrtError, match=r"did not start \(exit status 1\)(?s:.*)no_such_part"),
    ):
        client.run(scripted(""))


def _alive(pid: int) -> bool:
    deadline = time.monotonic() + 1
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return Path(f"/proc/{pid}").exists()


def test_server_that_was_started_ahead_runs_the_jobs(light: LabClient, scripted: ScriptedJob) -> None:
    with light as client:
        client.begin()
        client.begin()
        ahead = client._starting
        assert ahead is not None
        assert isinstance(client.run(scripted("pass")), Done)
        assert client._server is ahead
        client.begin()
        assert client._starting is None


def test_server_that_no_job_came_for_is_ended(light: LabClient) -> None:
    light.begin()
    ahead = light._starting
    assert ahead is not None
    light.close()
    assert ahead.process.poll() is not None
