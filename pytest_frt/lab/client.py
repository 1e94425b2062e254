"""The judge's side of the fork server: send jobs, get closed-type reports, leave nothing running."""

from __future__ import annotations

import itertools
import secrets
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from pytest_frt.contracts.job import CandidateJob, OracleJob, WitnessJob
from pytest_frt.errors import FrtError, StorageFault
from pytest_frt.lab import reaper
from pytest_frt.lab.launch import Launched, describe_exit, launch, worker_environment
from pytest_frt.lab.locks import DeviceLock
from pytest_frt.lab.reports import CrashedJob, JobReport, from_message, tail
from pytest_frt.lab.wire import PeerGone, PeerSilent, WireFault
from pytest_frt.spec import codec

ForkedJob = WitnessJob | CandidateJob | OracleJob
TARGETS: Final[Mapping[type[ForkedJob], str]] = {
    WitnessJob: "pytest_frt.lab.witness",
    CandidateJob: "pytest_frt.lab.candidate",
    OracleJob: "pytest_frt.lab.oracle",
}
"""Job type to the module (or absolute ``.py`` path) that defines ``run(job)``."""
START_LIMIT_S: Final = 180.0
"""Seconds for the imports of the server: a cold disk needs one minute for torch and transformers."""
_SLACK_S: Final = 30.0  # the supervisor kills, reaps and reports within this after its own limit
_SERVER_LOST: Final = (PeerGone, PeerSilent, WireFault)


class LabClient:
    """A fork server that is started on demand and restarted when a job takes it down.

    Args:
        runtime_dir: Folder for logs and compiled code of this run.
        environ: Environment of the run; workers get the scrubbed part of it.
        threads: Threads of the math libraries.
        preload: Libraries the server imports before it forks.
        time_limit_s: Seconds a job may take.
        lock: Lock of the device, shared while jobs run.
        targets: Job type to the module that runs it.
    """

    def __init__(
        self,
        runtime_dir: Path,
        *,
        environ: Mapping[str, str],
        threads: int,
        preload: Sequence[str] = ("torch",),
        time_limit_s: float = 900.0,
        lock: DeviceLock | None = None,
        targets: Mapping[type[ForkedJob], str] = TARGETS,
    ) -> None:
        self._mark = secrets.token_hex(8)
        self._log = runtime_dir / f"server-{self._mark}.log"
        cache = runtime_dir / "inductor"
        self._environment = worker_environment(environ, threads=threads, mark=self._mark, cache=cache)
        self._lock = lock or DeviceLock("cpu")
        self._preload = preload
        self._limit_s = time_limit_s
        self._targets = targets
        self._server: Launched | None = None
        self._starting: Launched | None = None
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> None:
        """Start the server unless it runs, and return at once: it imports its libraries meanwhile.

        Raises:
            FrtError: the interpreter cannot be started.
        """
        if self._server is None:
            self._starting = self._launched()

    def run(self, job: ForkedJob) -> JobReport:
        """Run one job and say what became of it.

        Raises:
            FrtError: the server cannot be started.
            StorageFault: the job's folder cannot be made.
        """
        return self.run_all((job,))[0]

    def run_all(self, jobs: Sequence[ForkedJob], *, parallel: int = 1) -> list[JobReport]:
        """Run jobs, at most ``parallel`` at a time, and return their reports in order.

        A job that takes the server down takes its mates down with it: each of them then runs again
        alone, so that only the culprit is reported as crashed.

        Raises:
            FrtError: the server cannot be started.
            StorageFault: a job's folder cannot be made.
        """
        reports: dict[int, JobReport] = {}
        waiting, flying = deque(range(len(jobs))), dict[int, int]()
        with self._lock.shared():
            while waiting or flying:
                try:
                    while waiting and len(flying) < parallel:
                        flying[self._send(jobs[waiting[0]])] = waiting[0]
                        waiting.popleft()
                    number, report = self._receive()
                    reports[flying.pop(number)] = report
                except _SERVER_LOST:
                    self._lose()
                    reports |= {index: self._alone(jobs[index]) for index in sorted(flying.values())}
                    flying.clear()
        return [reports[index] for index in range(len(jobs))]

    def rehearse(self, libraries: Sequence[str]) -> None:
        """Have the running server import libraries, and our own jobs, that each later job would import for itself.

        It does so while it waits for the next job. A server that it takes down is replaced by one that rehearses
        nothing: this makes jobs shorter and decides nothing.
        """
        if self._server is not None:
            with suppress(*_SERVER_LOST):
                self._server.channel.send({"libraries": [*libraries, *self._targets.values()]})

    def close(self) -> None:
        """End the server and kill whatever any job of this client left running; idempotent."""
        if self._starting is not None:
            self._starting.kill()  # it has no job, and hears nothing while it imports
        if self._server is not None:
            self._server.end()
        self._server = self._starting = None
        reaper.kill_marked(self._mark)

    def _alone(self, job: ForkedJob) -> JobReport:
        try:
            self._send(job)
            return self._receive()[1]
        except _SERVER_LOST:
            self._lose()
            return CrashedJob(-signal.SIGKILL, "the fork server was killed while the job ran, twice", ())

    def _lose(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server = None
        reaper.kill_marked(self._mark)

    def _send(self, job: ForkedJob) -> int:
        server = self._server or self._start()
        number = next(self._numbers)
        try:
            Path(job.out).mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise StorageFault(
                f"job folder {job.out} cannot be made: {fault.strerror}", hint="free space or choose another folder"
            ) from fault
        server.channel.send(
            {
                "id": number,
                "target": self._targets[type(job)],
                "job": codec.dumps(job),
                "out": job.out,
                "limit_s": self._limit_s,
            }
        )
        return number

    def _receive(self) -> tuple[int, JobReport]:
        if self._server is None:
            raise PeerGone("no server runs")
        message: Mapping[str, Any] = self._server.channel.receive(self._limit_s + _SLACK_S)
        report = message.get("report")
        if not isinstance(report, dict) or not isinstance(message.get("id"), int):
            raise WireFault("the server sent no report")
        return message["id"], from_message(report)

    def _launched(self) -> Launched:
        if self._starting is not None:
            return self._starting
        self._log.parent.mkdir(parents=True, exist_ok=True)
        arguments = [argument for name in self._preload for argument in ("--preload", name)]
        return launch("pytest_frt.lab.server", arguments, environment=self._environment, log=self._log)

    def _start(self) -> Launched:
        server, self._starting = self._launched(), None
        try:
            server.channel.receive(START_LIMIT_S)
        except (PeerGone, PeerSilent) as fault:
            status, said = describe_exit(server.end()), "\n  ".join(tail(server.log)[-3:])
            raise FrtError(
                f"the fork server did not start ({status}):\n  {said}",
                hint=f"read {server.log}",
            ) from fault
        self._server = server
        return server
